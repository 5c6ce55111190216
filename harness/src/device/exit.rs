//! When the driver must no longer be called: at process exit, and in a forked child.
//!
//! The driver shuts down in its own exit handler, whose order is not defined, and CUDA does not
//! work in a forked child.

#![expect(
    unsafe_code,
    reason = "registers C functions as exit and fork handlers"
)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::recursion_guard::is_quiet;
use crate::sync::{Mutex, locked};

static EXITING: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
static AT_EXIT: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Calls `last` when the process exits (not when it is killed or aborts). The newest function is
/// called first.
///
/// `last` must not call the driver, and runs on the thread that called `exit`. It is not run in a
/// forked child, whose report would repeat the parent's.
pub(crate) fn at_exit(last: fn()) {
    locked(&AT_EXIT).push(last);
    install();
}

/// Ends this process, a child of `parent`, when the parent ends.
pub(crate) fn end_with_parent(parent: u32) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes a number and reads no memory of ours; it affects only this process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if parent != std::os::unix::process::parent_id() {
            // The parent ended before the request.
            std::process::abort();
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
}

/// Whether the process has begun to exit.
pub(crate) fn exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// Whether this is a forked child of the process that was watched.
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Whether the driver may be called.
pub(crate) fn may_call_driver() -> bool {
    !exiting() && !forked()
}

/// Whether the harness's data may be read at process exit. It may not be read in a forked child,
/// whose locks may be held by threads that do not exist there, or if a signal handler calls `exit`
/// in the middle of the harness's own work, whose locks this thread may hold.
pub(crate) fn may_tell() -> bool {
    !forked() && !is_quiet()
}

/// Installs the handlers once. They may run before or after the driver's own: after its shutdown
/// the driver refuses every call (`CUDA_ERROR_DEINITIALIZED`).
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both handlers are plain functions of this image that neither unwind nor end; the
        // fork handler only stores to an atomic, which is allowed in the child of a multi-threaded
        // process.
        unsafe {
            libc::atexit(on_exit);
            #[cfg(unix)]
            libc::pthread_atfork(None, None, Some(on_fork));
        }
    });
}

extern "C" fn on_exit() {
    EXITING.store(true, Ordering::Relaxed);
    if !may_tell() {
        return;
    }
    let handlers = std::mem::take(&mut *locked(&AT_EXIT));
    for handler in handlers.into_iter().rev() {
        // Unwinding into the C library would abort and hide the exit code.
        let _ = std::panic::catch_unwind(handler);
    }
}

#[cfg(unix)]
unsafe extern "C" fn on_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

#[cfg(all(test, unix))]
pub(crate) mod tests;
