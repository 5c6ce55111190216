//! If `#[test]` is above the attribute, libtest has already registered the test when the attribute
//! runs, and the attribute cannot see this. The test then runs twice, and its second run reports
//! the mistake.

use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::child::Run;

use super::{case, fails};

#[test]
#[gpu_leak_check]
#[ignore = "fails on purpose"]
fn below_test() {}

#[test]
fn the_case_is_there_once() {
    assert!(case("attribute::double_registration::below_test").ignored);
}

#[test]
fn the_second_entry_fails_with_the_remedy() {
    let child = fails("attribute::double_registration::below_test");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(reported.contains("1 passed; 1 failed"), "{reported}");
    assert!(
        reported.contains("put `#[gpu_leak_check]` above `#[test]`"),
        "{reported}"
    );
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn called_and_registered() {}

/// libtest runs the tests in the order of their names, so this one runs first.
#[test]
#[ignore = "run by another test"]
fn a_call() {
    called_and_registered();
    for _ in 0..2 {
        // There is no function of the program between the thread's beginning and the test.
        let called = thread::spawn(called_and_registered).join();
        called.expect("the test passes");
    }
}

#[test]
fn calls_by_the_program_are_not_counted() {
    let both = Run::of("attribute::double_registration::a_call")
        .arg("attribute::double_registration::called_and_registered");
    let child = both.run();
    assert!(child.stdout.contains("2 passed"), "{child:#?}");
}
