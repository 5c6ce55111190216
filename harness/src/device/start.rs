//! Runs code before the program starts its first thread, when `main` has begun and nothing else is
//! running yet. This works only on Linux, where the start of threads is observed.

use std::sync::atomic::AtomicUsize;
#[cfg(feature = "holders")]
use std::sync::atomic::Ordering;

/// A function to run at that moment. It must be quick if there is nothing to do.
#[derive(Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "never called on this platform")
)]
pub(crate) struct BeforeFirstThread(pub(crate) fn());

inventory::collect!(BeforeFirstThread);

/// The C library's descriptor of the program's first thread, 0 if that thread did not load this
/// code.
static FIRST_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Returns the address of the C library's descriptor of the program's first thread, if it is known.
/// In glibc that is also its thread pointer.
#[cfg(feature = "holders")]
pub(crate) fn first_thread() -> Option<u64> {
    let known = FIRST_THREAD.load(Ordering::Relaxed);
    (known != 0).then_some(known as u64)
}

#[cfg(target_os = "linux")]
mod at_load {
    #![expect(
        unsafe_code,
        reason = "places a function that runs before `main` in a section of the program"
    )]

    use std::panic;
    use std::sync::atomic::Ordering;
    use std::thread;

    use gpu_leak_interpose as threads;

    use super::{BeforeFirstThread, FIRST_THREAD};

    /// Runs when the program is loaded. CUDA must not be called yet, so this only schedules the
    /// rest.
    #[used]
    // SAFETY: the section holds pointers to functions of this type, which the C library calls once
    // each; this one stores an atomic. The number puts it before initialisers without one, in
    // whatever order they are linked.
    #[unsafe(link_section = ".init_array.50000")]
    static LEAVE_WORD: extern "C" fn() = leave_word;

    /// Shows the command that this program contains the harness: an ELF note without contents.
    #[used]
    // SAFETY: the section only holds data, and this has the format of a note.
    #[unsafe(link_section = ".note.gpu-leak-check")]
    static NOTE: gpu_leak_hooks::Note = gpu_leak_hooks::Note::new();

    extern "C" fn leave_word() {
        // SAFETY: these only return numbers of this thread and process.
        let (this, thread, process) =
            unsafe { (libc::pthread_self(), libc::gettid(), libc::getpid()) };
        if thread == process {
            FIRST_THREAD.store(this as usize, Ordering::Relaxed);
        }
        threads::before_next_thread(run_all);
    }

    fn run_all() {
        // Only std knows that `main` has begun, and on which thread.
        if thread::current().name() != Some("main") {
            // It is too early: a library that is loaded with the program starts a thread.
            return leave_word();
        }
        for entry in inventory::iter::<BeforeFirstThread> {
            // This runs inside the C library, into which nothing may unwind.
            let _ = panic::catch_unwind(entry.0);
        }
    }
}
