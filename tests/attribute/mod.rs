//! `#[gpu_leak_check]` on every form of test and together with every other attribute.
//!
//! These tests verify that a body runs where it should, and as many times as it should. Tests that
//! must fail are `#[ignore]`d, and other tests run them in a child process.

mod double_registration;
mod facts;
mod module;
mod odd;
mod order;
mod outcomes;
mod program;
mod rstest;
mod runtimes;
mod serial_test;
mod test_case;
mod test_log;
mod warmup;

use gpu_leak_check::case::Case;
use gpu_leak_check::registry;

/// Returns the only registered case with this name.
fn case(name: &str) -> &'static Case {
    let mut cases = registry::cases();
    cases.retain(|case| case.name() == name);
    assert_eq!(cases.len(), 1, "cases named `{name}`");
    cases[0]
}

/// Runs this test in a child process and returns its output. Fails unless the test passed.
fn passes(test: &str) -> gpu_leak_tests::child::Child {
    let child = gpu_leak_tests::child::run(test);
    assert!(child.status.success(), "{test}: {child:#?}");
    child
}

/// Runs this test in a child process and returns its output. Fails unless the test failed.
fn fails(test: &str) -> gpu_leak_tests::child::Child {
    let child = gpu_leak_tests::child::run(test);
    assert!(!child.status.success(), "{test}: {child:#?}");
    child
}
