//! A test target without libtest. The compiler removes `#[test]` functions, but their cases remain
//! and run with libtest's command line.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_leak_check::{gpu_leak_check, registry};

gpu_leak_check::main!();

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[gpu_leak_check]
#[test]
fn of_libtest() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[gpu_leak_check]
#[tokio::test]
async fn of_a_runtime() -> Result<(), String> {
    RUNS.fetch_add(10, Ordering::Relaxed);
    Ok(())
}

#[gpu_leak_check]
fn of_nothing() {
    RUNS.fetch_add(100, Ordering::Relaxed);
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
fn panics() {
    panic!("the body's own panic");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
fn returns_an_error() -> Result<(), String> {
    Err("the body's own error".to_owned())
}

#[gpu_leak_check(isolate)]
fn isolated() {
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
}

/// Runs this program with other arguments, outside nextest.
fn run(arguments: &[&str]) -> (Output, String) {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    let output = command.args(arguments).env_remove("NEXTEST").output();
    let output = output.expect("a child process");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, stdout)
}

#[gpu_leak_check]
fn the_command_line_lists_in_the_form_that_nextest_reads() {
    let (_, all) = run(&["--list", "--format", "terse"]);
    let mut names: Vec<_> = registry::cases().iter().map(|case| case.name()).collect();
    names.sort_unstable();
    let listed: Vec<_> = all
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    assert_eq!(listed, names, "{all}");
    let (_, ignored) = run(&["--list", "--format", "terse", "--ignored"]);
    assert_eq!(ignored.trim(), "panics: test\nreturns_an_error: test");
}

#[gpu_leak_check]
fn the_command_line_selects() {
    let (output, reported) = run(&[
        "of_",
        "--skip",
        "of_a",
        "--nocapture",
        "--test-threads",
        "2",
    ]);
    assert!(output.status.success(), "{reported}");
    assert!(reported.contains("2 passed; 0 failed"), "{reported}");
    let (_, reported) = run(&["of_", "--exact"]);
    assert!(reported.contains("0 passed; 0 failed"), "{reported}");
    let (_, reported) = run(&["of_nothing", "--exact", "--include-ignored"]);
    assert!(reported.contains("1 passed; 0 failed"), "{reported}");
}

#[gpu_leak_check]
fn a_failure_fails_the_program_and_says_why() {
    let (output, reported) = run(&["--ignored"]);
    assert_eq!(output.status.code(), Some(101), "{reported}");
    assert!(reported.contains("0 passed; 2 failed"), "{reported}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("the body's own panic"), "{stderr}");
    assert!(stderr.contains("the body's own error"), "{stderr}");
}
