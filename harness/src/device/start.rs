//! Runs code when `main` has begun, immediately before the program starts its first thread, so that
//! nothing else is running yet. This works only on Linux, where the start of threads is
//! intercepted.

use std::sync::atomic::AtomicUsize;
#[cfg(feature = "holders")]
use std::sync::atomic::Ordering;

/// A function to run at that moment. It must return quickly if it has nothing to do.
#[derive(Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "never called on this platform")
)]
pub(crate) struct BeforeFirstThread(pub(crate) fn());

inventory::collect!(BeforeFirstThread);

/// The C library's descriptor of the program's first thread, or 0 if another thread loaded this
/// code.
static FIRST_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Returns the address of the C library's descriptor of the program's first thread, if it is known.
/// In glibc, this is also the thread pointer of that thread.
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

    /// Runs when the program is loaded. CUDA must not be called yet, so this only requests that
    /// `run_all` is called later.
    #[used]
    // SAFETY: the section holds pointers to functions of this type, and the C library calls each of
    // them once. This function only stores an atomic and registers a callback. The number places it
    // before initialisers without a number, regardless of the order in which objects are linked.
    #[unsafe(link_section = ".init_array.50000")]
    static INITIALISER: extern "C" fn() = request;

    /// An ELF note without contents, which tells the command that this program contains the
    /// harness.
    #[used]
    // SAFETY: the section only holds data, and the static has the format of a note.
    #[unsafe(link_section = ".note.gpu-leak-check")]
    static NOTE: gpu_leak_hooks::Note = gpu_leak_hooks::Note::new();

    extern "C" fn request() {
        // SAFETY: the calls have no preconditions and only return numbers of this thread and this
        // process.
        let (this, thread, process) =
            unsafe { (libc::pthread_self(), libc::gettid(), libc::getpid()) };
        if thread == process {
            FIRST_THREAD.store(this as usize, Ordering::Relaxed);
        }
        threads::before_next_thread(run_all);
    }

    fn run_all() {
        // Only std knows whether `main` has begun, and on which thread.
        if thread::current().name() != Some("main") {
            // It is too early, because a library that is loaded with the program is starting a
            // thread.
            return request();
        }
        for entry in inventory::iter::<BeforeFirstThread> {
            // This runs inside the C library, and a panic must not unwind into it.
            let _ = panic::catch_unwind(entry.0);
        }
    }
}
