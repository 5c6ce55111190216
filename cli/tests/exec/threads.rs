//! Tests programs whose threads would wait for each other, or end, inside the harness.

use gpu_leak_tests::fake::Fake;

use super::{compiled_from, program, ran_with};

/// The loader holds its lock while it calls constructors, so a thread that holds another lock must
/// not wait for that one.
#[test]
fn a_constructor_may_call_the_driver_during_the_first_call_of_another_thread() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = ["-shared", "-fPIC", "-DCONSTRUCTOR", "-DFUNCTION=creates"];
    let library = compiled_from("library.c", directory.path(), "libconstructor.so", &options);
    let words = ["calls-from-a-constructor".as_ref(), library.as_os_str()];
    let ran = ran_with(&Fake::new(), &[], program(), &words);
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
}
