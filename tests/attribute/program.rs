//! The attribute on a program's `main`: see `programs/checked.rs`.

use std::path::Path;
use std::process::{Command, Output};

use gpu_leak_check::registry;

/// Runs the program with this argument. Returns `None` if only the tests, and not the program, were
/// copied to this machine.
fn run(argument: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let program = Path::new(env!("CARGO_BIN_EXE_checked-program"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(program);
    command
        .arg(argument)
        .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
        .env_remove("CI")
        .env_remove("NEXTEST")
        .env_remove("RUST_BACKTRACE");
    command.envs(variables.iter().copied());
    program
        .exists()
        .then(|| command.output().expect("a process"))
}

fn assert_ends(argument: &str, code: i32, reported: &[&str]) {
    let Some(output) = run(argument, &[]) else {
        return;
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    for part in reported {
        assert!(stderr.contains(part), "no `{part}` in\n{stderr}");
    }
}

#[test]
fn a_program_that_frees_everything_ends_normally_and_is_counted() {
    assert_ends("clean", 0, &["gpu-leak-check: 1 checked: 1 clean"]);
}

#[test]
fn a_program_that_leaks_ends_with_1_and_the_report() {
    let again = "again: cargo run -p gpu-leak-tests --bin checked-program";
    let reported = [
        "gpu leak: 1 allocation, 64 B on",
        "programs/checked.rs",
        again,
        "1 leaked",
    ];
    assert_ends("leak", 1, &reported);
}

#[test]
fn a_program_s_own_failure_is_kept_and_the_leak_is_reported_as_well() {
    assert_ends(
        "error",
        1,
        &["the program's own error", "gpu leak: 1 allocation"],
    );
    assert_ends("code", 7, &[]);
    assert_ends("panic", 101, &["thread 'main'", "the program's own panic"]);
}

#[test]
fn wrong_settings_end_a_program_with_2_before_it_runs() {
    let Some(output) = run("panic", &[("GPU_LEAK_CHECK", "on")]) else {
        return;
    };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("is not one of auto, require, off"),
        "{stderr}"
    );
}

#[test]
fn a_program_is_not_in_the_registry() {
    assert!(registry::cases().iter().all(|case| !case.is_program()));
}
