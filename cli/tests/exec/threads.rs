//! Tests of programs whose threads could deadlock or be cancelled inside the harness.

use gpu_leak_tests::fake::Fake;

use super::{compiled_from, program, ran, ran_with};

/// The loader holds its lock while it calls constructors, so a thread that holds another lock must
/// not wait for the loader's lock.
#[test]
fn a_constructor_may_call_the_driver_during_the_first_call_of_another_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ["-shared", "-fPIC", "-DCONSTRUCTOR", "-DFUNCTION=creates"];
    let library = compiled_from("library.c", directory.path(), "libconstructor.so", &options);
    let words = ["calls-from-a-constructor".as_ref(), library.as_os_str()];
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
}

/// The driver's memory functions are not cancellation points, so a thread must not be cancelled
/// when the harness reads or writes a file in such a call.
#[test]
fn a_thread_is_not_cancelled_inside_a_call_to_the_driver() {
    let ran = ran(&Fake::new(), &[], "cancels-a-thread");
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
}
