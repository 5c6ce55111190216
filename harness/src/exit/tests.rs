use super::{FORKED, PROCESS, at_exit, forked, install, may_call_driver, on_exit};
use crate::ledger::{self, Place};
use crate::observe::{self, Source};
use crate::recursion_guard::quiet;
use std::process;
use std::sync::atomic::Ordering;

/// Runs `body` in a forked child process, which exits with the code that `body` returns. Returns
/// the child's wait status. An alarm ends the child after a few seconds.
pub(crate) fn in_forked_child(body: impl FnOnce() -> i32) -> i32 {
    install();
    // SAFETY: the child runs `body`, which the tests in this crate restrict to what the child of a
    // process with threads may do.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the call requests a signal that ends the child.
        unsafe { libc::alarm(10) };
        let code = body();
        // SAFETY: the call ends the child immediately, without running handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process, and `status` is writable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

#[test]
fn an_exit_of_a_copy_or_during_the_harness_s_own_work_reports_nothing() {
    fn end_child() {
        // SAFETY: the call ends the child immediately, without running handlers.
        unsafe { libc::_exit(9) };
    }
    let exit = |at_work: bool, is_copy: bool| {
        in_forked_child(|| {
            // Exiting is tested in a child process, because a process can exit only once. `_Fork`
            // makes copies of a process that run no fork handler.
            FORKED.store(false, Ordering::Relaxed);
            if !is_copy {
                PROCESS.store(process::id(), Ordering::Relaxed);
            }
            at_exit(end_child);
            let _quiet = at_work.then(quiet);
            on_exit();
            0
        })
    };
    assert_eq!(libc::WEXITSTATUS(exit(false, false)), 9);
    assert_eq!(exit(true, false), 0);
    assert_eq!(exit(false, true), 0);
}

#[test]
fn a_forked_child_reports_to_no_ledger() {
    static SOURCE: Source = Source::new("fork-test", &[]);
    observe::listen();
    let place = Place::named("fork-test:0");
    let bytes = || ledger::live().bytes(SOURCE.layer(), place).live;
    SOURCE.allocated(place, 1, 64);
    assert_eq!(bytes(), 64);
    let status = in_forked_child(|| {
        // This must not take a lock.
        SOURCE.allocated(place, 2, 64);
        i32::from(bytes() != 64)
    });
    assert_eq!(status, 0);
    SOURCE.freed(1);
}

#[test]
fn a_forked_child_may_not_call_the_driver() {
    let status = in_forked_child(|| if forked() { 7 } else { 8 });
    assert_eq!(libc::WEXITSTATUS(status), 7);
    assert!(may_call_driver());
}
