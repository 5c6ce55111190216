//! Determines when the driver must no longer be called: at process exit, and in a forked child.
//!
//! The driver shuts down in its own exit handler, which may run before or after the harness's, and
//! CUDA does not work in a forked child.

#![expect(
    unsafe_code,
    reason = "registers C functions as exit and fork handlers, and as a finaliser"
)]

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

use crate::recursion_guard::is_quiet;
use crate::sync::{Mutex, locked};

static EXITING: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
/// The ID of the process in which the handlers were installed; 0 before that.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static AT_EXIT: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
/// See [`before_exit`].
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

/// Registers `handler`, which is called when the process exits, but not when it is killed or
/// aborts. The handler that was registered last is called first.
///
/// `handler` runs on the thread that called `exit`, and must not call the driver. It does not run
/// in a forked child, because the child would repeat the report of its parent.
pub(crate) fn at_exit(handler: fn()) {
    locked(&AT_EXIT).push(handler);
    install();
}

/// Registers the only `handler` that is called when the process begins to exit, while the loader
/// may still be asked for libraries. If the loader were asked later, it would initialise finalised
/// libraries again.
pub(crate) fn before_exit(handler: fn()) {
    // An error means that the handler is already registered.
    let _ = BEFORE_EXIT.set(handler);
    install();
}

/// Ends this process, which is a child of `parent`, when the parent ends.
pub(crate) fn end_with_parent(parent: u32) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the call takes a number, reads no memory of this process, and affects only this
        // process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if parent != std::os::unix::process::parent_id() {
            // The parent ended before the request was made.
            process::abort();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
}

/// Writes what C code has printed to the standard output. If that is a pipe, the C library would
/// write it only when its buffer is full, or at the end of the process.
pub(crate) fn flush_output_of_c() {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            static stdout: *mut libc::FILE;
        }
        // SAFETY: the C library sets this variable before the program begins. The stream that it
        // points to exists until the process ends, and locks itself during the call.
        unsafe { libc::fflush(stdout) };
    }
}

/// Whether the process has begun to exit.
pub(crate) fn exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// Whether this is a forked child of the process that was watched.
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

pub(crate) fn may_call_driver() -> bool {
    !exiting() && !forked()
}

/// Whether the harness's data may be read at process exit. It may not be read in a forked child,
/// because threads that do not exist there may hold locks. `_Fork` and `clone` run no fork handler,
/// so their children are recognised by the process ID. Nor may it be read if a signal
/// handler calls `exit` in the middle of the harness's own work, because this thread may then hold
/// locks.
pub(crate) fn may_report() -> bool {
    let installed_in = PROCESS.load(Ordering::Relaxed);
    let is_copy = installed_in != 0 && installed_in != process::id();
    !forked() && !is_copy && !is_quiet()
}

/// Installs the handlers once. They may run before or after the driver's own handlers. After the
/// driver's shutdown, every call fails with `CUDA_ERROR_DEINITIALIZED`.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PROCESS.store(process::id(), Ordering::Relaxed);
        // SAFETY: both handlers are plain functions of this image that do not unwind and return
        // normally. The fork handler only stores to an atomic, which is allowed in the child of a
        // multi-threaded process.
        unsafe {
            libc::atexit(on_exit);
            #[cfg(unix)]
            libc::pthread_atfork(None, None, Some(on_fork));
        }
    });
}

/// Runs when the loader finalises this code, which it does in an exit handler of its own. That
/// handler runs before [`on_exit`] if a constructor of a library has installed `on_exit`.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this type, and the loader calls each of them
// once. This one only stores an atomic.
#[unsafe(link_section = ".fini_array")]
static FINALISER: extern "C" fn() = {
    extern "C" fn finalise() {
        EXITING.store(true, Ordering::Relaxed);
    }
    finalise
};

extern "C" fn on_exit() {
    if !exiting()
        && may_report()
        && let Some(handler) = BEFORE_EXIT.get()
    {
        let _ = std::panic::catch_unwind(handler);
    }
    EXITING.store(true, Ordering::Relaxed);
    if !may_report() {
        return;
    }
    let handlers = std::mem::take(&mut *locked(&AT_EXIT));
    for handler in handlers.into_iter().rev() {
        // A panic that unwinds into the C library would abort the process and hide the exit code.
        let _ = std::panic::catch_unwind(handler);
    }
}

#[cfg(unix)]
extern "C" fn on_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

#[cfg(all(test, unix))]
pub(crate) mod tests;
