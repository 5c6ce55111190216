//! A test has the same outcome with and without the attribute.

use std::error::Error;
use std::fmt;
use std::rc::Rc;

use gpu_leak_check::gpu_leak_check;

use super::{fails, passes};

/// An error that cannot be sent to another thread.
#[derive(Debug)]
struct Local(Rc<str>);

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Local {}

#[gpu_leak_check]
#[test]
fn returns_ok() -> Result<(), Box<dyn Error>> {
    Ok(())
}

#[gpu_leak_check]
#[test]
#[ignore = "fails on purpose"]
fn returns_an_error_that_is_not_send() -> Result<(), Box<dyn Error>> {
    Err(Box::new(Local("the body's own error".into())))
}

#[test]
fn an_error_fails_the_test_and_is_shown() {
    let child = fails("attribute::outcomes::returns_an_error_that_is_not_send");
    assert!(child.stderr.contains("the body's own error"), "{child:#?}");
}

#[gpu_leak_check]
#[test]
#[ignore = "fails on purpose"]
fn panics() {
    panic!("the body's own panic");
}

#[test]
fn a_panic_fails_the_test_and_is_shown_at_its_place() {
    let child = fails("attribute::outcomes::panics");
    assert!(child.stderr.contains("the body's own panic"), "{child:#?}");
    assert!(child.stderr.contains("outcomes.rs"), "{child:#?}");
}

#[gpu_leak_check]
#[test]
#[should_panic(expected = "no such device")]
fn panics_as_expected() {
    panic!("there is no such device here");
}

#[gpu_leak_check]
#[test]
#[should_panic]
fn panics_with_any_message() {
    panic!("whatever");
}

#[gpu_leak_check]
#[test]
#[ignore = "fails on purpose"]
#[should_panic(expected = "no such device")]
fn panics_with_another_message() {
    panic!("out of memory");
}

#[gpu_leak_check]
#[test]
#[ignore = "fails on purpose"]
#[should_panic]
fn does_not_panic() {}

#[test]
fn an_unexpected_panic_fails_with_the_message_of_libtest() {
    let child = fails("attribute::outcomes::panics_with_another_message");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(
        reported.contains("panic did not contain expected string"),
        "{reported}"
    );
    assert!(reported.contains("no such device"), "{reported}");
}

#[test]
fn a_missing_panic_fails_with_the_message_of_libtest() {
    let child = fails("attribute::outcomes::does_not_panic");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(
        reported.contains("test did not panic as expected"),
        "{reported}"
    );
}

#[gpu_leak_check]
#[test]
#[ignore = "another test checks that this is not run"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn ignored() {
    println!("the ignored body ran");
}

#[test]
fn an_ignored_test_runs_only_when_asked() {
    let name = "attribute::outcomes::ignored";
    let child = passes(name);
    assert!(child.stdout.contains("the ignored body ran"), "{child:#?}");
    let program = std::env::current_exe().expect("this program");
    let output = std::process::Command::new(program)
        .args(["--exact", name])
        .output()
        .expect("a child process");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 ignored"), "{stdout}");
}
