//! Reads lines from real interpreters: every release of CPython on this machine.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the interpreters to test. These are the paths in `GPU_LEAK_CHECK_PYTHONS`, separated by
/// colons, or else the interpreters in `PATH`.
fn interpreters() -> Vec<PathBuf> {
    if let Some(set) = env::var_os("GPU_LEAK_CHECK_PYTHONS") {
        return env::split_paths(&set).collect();
    }
    let names = (9..=15).map(|minor| format!("python3.{minor}"));
    let names = names.chain(["python3".to_owned()]).map(PathBuf::from);
    names.filter(is_cpython).collect()
}

fn is_cpython(name: &PathBuf) -> bool {
    let program = "import sys, ctypes; sys.exit(sys.implementation.name != 'cpython')";
    let output = Command::new(name).args(["-c", program]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a program of this folder with the probe's path as its argument, in a folder where reports
/// contain absolute paths.
fn run(interpreter: &PathBuf, program: &str) -> Output {
    let programs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let deps = env::current_exe().expect("this program has a path");
    let probe = deps.with_file_name("libgpu_leak_python_probe.so");
    let arguments: [OsString; 2] = [programs.join(program).into(), probe.into()];
    let command = Command::new(interpreter)
        .args(arguments)
        .current_dir("/")
        // Otherwise, paths would be relative to this workspace.
        .env_remove("CARGO_MANIFEST_DIR")
        .output();
    command.unwrap_or_else(|error| panic!("{}: {error}", interpreter.display()))
}

#[test]
#[expect(clippy::print_stdout, reason = "lists what was tested")]
fn every_frame_has_the_line_that_python_reports() {
    let interpreters = interpreters();
    if interpreters.is_empty() {
        println!("skipped: no python3 with ctypes in PATH");
    }
    for interpreter in interpreters {
        let output = run(&interpreter, "scenarios.py");
        let reported = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && reported.contains("checked "),
            "{}: {}\n{reported}{wrong}",
            interpreter.display(),
            output.status,
        );
        println!("{}: {}", interpreter.display(), reported.trim_end());
    }
}

#[test]
fn install_finds_nothing_in_a_process_without_python() {
    assert_eq!(gpu_leak_python::install(), Ok(None));
}

#[test]
fn the_user_s_line_is_named_as_python_names_it() {
    for interpreter in interpreters() {
        let output = run(&interpreter, "leak.py");
        let reported = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = reported.lines().collect();
        let is_qualified = lines.first() == Some(&"qualified");
        let step = if is_qualified { "Trainer.step" } else { "step" };
        let expected = [
            format!("leak.py:19 in {step}"),
            "leak.py:23 in train".to_owned(),
            "leak.py:26 in <module>".to_owned(),
        ];
        assert_eq!(lines[1..], expected, "{}\n{wrong}", interpreter.display());
    }
}
