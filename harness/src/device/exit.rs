//! When the driver must no longer be called: at the process's exit, and in a forked child.
//!
//! The driver takes itself down in a handler of its own, in an order that nobody controls, and
//! CUDA does not work in a forked child at all.

#![expect(unsafe_code, reason = "exit and fork handlers are C's")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use super::quiet::is_quiet;

static EXITING: AtomicBool = AtomicBool::new(false);
static FORKED: AtomicBool = AtomicBool::new(false);
static AT_EXIT: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Calls `last` when the process exits (not when it is killed or aborts), the newest first.
///
/// `last` must not call the driver, and runs on whatever thread called `exit`. Not run in
/// a forked child: what the parent counted is not the child's to tell.
pub(crate) fn at_exit(last: fn()) {
    AT_EXIT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(last);
    install();
}

/// Has this process, a child of `parent`, end with it.
pub(crate) fn end_with_parent(parent: u32) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes a number and reads no memory of ours; what it asks for concerns no other
        // process.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if parent != std::os::unix::process::parent_id() {
            // It has ended before it could be asked for.
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

/// Whether this is a forked child of the process that watched.
pub(crate) fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Whether the driver may be called.
pub(crate) fn may_call_driver() -> bool {
    !exiting() && !forked()
}

/// Whether what the harness knows may be read at the process's end. Not in a forked child, where its
/// locks may be held by threads that are not there; nor where a handler of a signal calls `exit` in
/// the midst of the harness's own work, whose locks this very thread may hold.
pub(crate) fn may_tell() -> bool {
    !forked() && !is_quiet()
}

/// Installs the handlers, once. Whether they run before or after the driver's own does not matter:
/// between the two the driver refuses every call (`CUDA_ERROR_DEINITIALIZED`).
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both handlers are plain functions of this image that neither unwind nor end;
        // the fork handler only stores to an atomic, which is all that a child of a process with
        // threads may do.
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
    let handlers = std::mem::take(&mut *AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner));
    for handler in handlers.into_iter().rev() {
        // Unwinding into the C library would abort, and hide the exit code that is on its way.
        let _ = std::panic::catch_unwind(handler);
    }
}

#[cfg(unix)]
unsafe extern "C" fn on_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Does `body` in a forked child: the wait status that it ends with, by an alarm if it takes seconds.
#[cfg(all(test, unix))]
pub(crate) fn in_forked_child(body: impl FnOnce()) -> i32 {
    install();
    // SAFETY: the child does what `body` does, which the tests here keep to what a child of a
    // process with threads may do.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: asks for a signal that ends the child.
        unsafe { libc::alarm(10) };
        body();
        // SAFETY: ends the child at once, without handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process and `status` is writable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

#[cfg(all(test, unix))]
mod tests {
    use super::{FORKED, at_exit, forked, in_forked_child, install, may_call_driver, on_exit};
    use crate::device::quiet::quiet;
    use crate::ledger::{self, Place};
    use crate::observe::{self, Source};
    use std::sync::atomic::Ordering;

    #[test]
    fn an_exit_in_the_midst_of_the_harness_s_own_work_tells_nothing() {
        fn told() {
            // SAFETY: ends the child at once, without handlers.
            unsafe { libc::_exit(9) };
        }
        let exit = |at_work: bool| {
            in_forked_child(|| {
                // A process that exits, for once, in a child.
                FORKED.store(false, Ordering::Relaxed);
                at_exit(told);
                let _quiet = at_work.then(quiet);
                on_exit();
            })
        };
        assert_eq!(libc::WEXITSTATUS(exit(false)), 9);
        assert_eq!(exit(true), 0);
    }

    #[test]
    fn a_forked_child_reports_to_no_ledger() {
        static SOURCE: Source = Source::new("fork-test", &[]);
        install();
        observe::listen();
        let place = Place::named("fork-test:0");
        let bytes = || ledger::live().bytes(SOURCE.layer(), place).live;
        SOURCE.allocated(place, 1, 64);
        assert_eq!(bytes(), 64);
        // SAFETY: the child reports, which must touch no lock, reads two atomics and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            SOURCE.allocated(place, 2, 64);
            // SAFETY: ends the child at once, without handlers.
            unsafe { libc::_exit(i32::from(bytes() != 64)) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 0);
        SOURCE.freed(1);
    }

    #[test]
    fn a_forked_child_may_not_call_the_driver() {
        install();
        // SAFETY: the child calls nothing but `forked` (an atomic load) and `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child at once, without handlers.
            unsafe { libc::_exit(if forked() { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(may_call_driver());
    }
}
