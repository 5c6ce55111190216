//! The contract of `pthread_create` as C code uses it.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "calls the C library as C code does")]

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use gpu_leak_check_threads::{inherits, set_token, token};

type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: Routine,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_exit(value: *mut c_void) -> !;
}

/// Runs a routine on a thread of its own, as C code would, and returns its result.
fn run(routine: Routine, argument: usize) -> usize {
    let mut thread = 0;
    let mut result = null_mut();
    // SAFETY: `thread` and `result` are to be written to, null attributes are the defaults, both
    // routines below accept any argument, and the thread is joined once.
    unsafe {
        let created = pthread_create(
            &raw mut thread,
            null(),
            routine,
            std::ptr::without_provenance_mut(argument),
        );
        assert_eq!(created, 0);
        assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
    }
    result.addr()
}

extern "C-unwind" fn returns_token_and_argument(argument: *mut c_void) -> *mut c_void {
    let token = usize::try_from(token()).expect("a small token");
    std::ptr::without_provenance_mut(token << 8 | argument.addr())
}

extern "C-unwind" fn exits(argument: *mut c_void) -> *mut c_void {
    // SAFETY: no frame of this thread has anything to drop.
    unsafe { pthread_exit(argument) }
}

#[test]
fn argument_and_result_pass_through() {
    let before = set_token(0);
    assert_eq!(run(returns_token_and_argument, 7), 7);
    set_token(3);
    let token = if inherits() { 3 } else { 0 };
    assert_eq!(run(returns_token_and_argument, 7), token << 8 | 7);
    set_token(before);
}

#[test]
fn a_thread_may_end_by_pthread_exit() {
    let before = set_token(4);
    assert_eq!(run(exits, 9), 9);
    set_token(before);
}

#[test]
fn a_thread_that_cannot_start_is_an_error_and_the_next_one_starts() {
    let before = set_token(5);
    let refused = std::thread::Builder::new().stack_size(1 << 60).spawn(|| ());
    assert!(refused.is_err());
    assert!(std::thread::spawn(|| ()).join().is_ok());
    set_token(before);
}
