//! Tests whether the driver's calls are intercepted, and until when.

use super::{allocate, free, interception, live, watched_context, with_driver};
use crate::api::Interception;
use crate::device::{contexts, pools};
use crate::exit;
use crate::ledger;
use gpu_leak_interpose::real_symbol;

#[test]
fn a_forked_child_is_left_alone() {
    with_driver("", || {
        watched_context();
        let pointer = allocate(64);
        // SAFETY: the child only calls the stand-in and `_exit`, and only one thread of this
        // process is at work.
        let child = unsafe { libc::fork() };
        if child == 0 {
            free(pointer);
            let quiet = exit::forked() && live().len() == 1 && pools::readings(false).is_empty();
            // SAFETY: the call ends the child immediately, without running handlers.
            unsafe { libc::_exit(if quiet { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process, and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert_eq!(interception(), Interception::Whole);
    });
}

#[test]
fn a_driver_that_nobody_has_initialised_is_not_used() {
    with_driver("", || {
        assert_eq!(
            interception(),
            Interception::Unused,
            "the driver is not loaded"
        );
        assert_eq!(contexts::missing(), None);
        assert_eq!(
            interception(),
            Interception::Unused,
            "only the harness has initialised the driver"
        );
        watched_context();
        assert_eq!(interception(), Interception::Whole);
    });
}

#[test]
fn a_driver_whose_initialisation_was_missed_is_not_intercepted() {
    with_driver("", || {
        // SAFETY: the name ends with a zero byte, and the stand-in has no initialisers.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        // SAFETY: the handle is open, and the function is called only with its own signature.
        let initialise = unsafe { real_symbol(library, c"cuInit") };
        // SAFETY: `cuInit` has this signature.
        let initialise = unsafe {
            std::mem::transmute::<*const (), unsafe extern "C" fn(u32) -> u32>(initialise)
        };
        // SAFETY: the function has no preconditions.
        assert_eq!(unsafe { initialise(0) }, 0);
        assert_eq!(interception(), Interception::None);
    });
}

#[test]
fn a_panic_of_the_harness_in_a_call_is_caught_and_marks_it_as_broken() {
    with_driver("", || {
        watched_context();
        ledger::live().listen(Box::new(|_, _, _| panic!("a defect of the harness")));
        let pointer = allocate(64);
        assert_eq!(free(pointer), 0);
        assert_eq!(interception(), Interception::Broken);
    });
}
