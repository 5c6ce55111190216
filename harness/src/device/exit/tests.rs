use super::{FORKED, at_exit, forked, install, may_call_driver, on_exit};
use crate::ledger::{self, Place};
use crate::observe::{self, Source};
use crate::recursion_guard::quiet;
use std::sync::atomic::Ordering;

/// Runs `body` in a forked child process and returns its wait status; an alarm ends the child after
/// a few seconds.
pub(crate) fn in_forked_child(body: impl FnOnce()) -> i32 {
    install();
    // SAFETY: the child runs `body`, which the tests here restrict to what a child of a process
    // with threads may do.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: requests a signal that ends the child.
        unsafe { libc::alarm(10) };
        body();
        // SAFETY: ends the child immediately, without handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process and `status` is writable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

#[test]
fn an_exit_during_the_harness_s_own_work_reports_nothing() {
    fn end_child() {
        // SAFETY: ends the child immediately, without handlers.
        unsafe { libc::_exit(9) };
    }
    let exit = |at_work: bool| {
        in_forked_child(|| {
            // A process that exits, tested in a child process because that can only be done once.
            FORKED.store(false, Ordering::Relaxed);
            at_exit(end_child);
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
        // SAFETY: ends the child immediately, without handlers.
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
        // SAFETY: ends the child immediately, without handlers.
        unsafe { libc::_exit(if forked() { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process and `status` is writable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 7);
    assert!(may_call_driver());
}
