//! Tests of `cargo gpu-leak exec` on programs in C and C++, with the fake driver.
#![cfg(target_os = "linux")]

mod children;
mod cpp;
mod endings;
mod finds;
mod kept;
mod seen;
mod signals;
mod threads;
mod vulkan;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use gpu_leak_check::report::run_file::{self, RunFile};
use gpu_leak_tests::fake::Fake;
use tempfile::TempDir;

use crate::support::{CliOutput, call, command};

/// Returns the program, which is compiled once.
fn program() -> &'static Path {
    static BUILT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = BUILT.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = compiled(
            directory.path(),
            "program",
            &["-g", "-O0", "-ldl", "-lpthread", "-rdynamic"],
        );
        (directory, path)
    });
    path
}

fn compiled(directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
    compiled_from("program.c", directory, name, flags)
}

fn compiled_from(source: &str, directory: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let path = directory.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exec");
    let status = Command::new("cc")
        .arg(sources.join(source))
        .arg("-o")
        .arg(&path)
        .args(flags)
        .status();
    assert!(status.expect("a C compiler").success());
    path
}

#[test]
fn every_test_that_the_page_of_limits_names_is_there() {
    let page = include_str!("../../../docs/limits.md");
    let quoted: Vec<_> = page.split('`').collect();
    let named = quoted.windows(3).filter(|words| words[1] == " in ");
    let mut count = 0;
    for words in named {
        let Some(file) = words[2].strip_prefix("cli/tests/exec/") else {
            continue;
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/exec")
            .join(file);
        let source = fs::read_to_string(path).expect("a file of these");
        assert!(source.contains(&format!("fn {}()", words[0])), "{words:?}");
        count += 1;
    }
    assert!(count >= 6, "the page names {count}");
}

/// Returns the number of the program's line that has this comment.
fn line_of(comment: &str) -> u32 {
    line_in(include_str!("program.c"), comment)
}

/// Returns the number of the line of `source` that contains `words`.
fn line_in(source: &str, words: &str) -> u32 {
    let lines = source.lines();
    let line = (1..).zip(lines).find(|(_, line)| line.contains(words));
    line.expect("a line").0
}

/// A run of the command: its output, and the directory of its files.
struct Ran {
    reported: CliOutput,
    directory: TempDir,
}

impl Ran {
    fn files(&self) -> Vec<RunFile> {
        let runs = fs::read_dir(self.directory.path())
            .expect("a directory")
            .flatten();
        let files = runs.flat_map(|run| fs::read_dir(run.path()).expect("a run").flatten());
        let paths = files.map(|file| file.path());
        paths
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
            .map(|path| run_file::read(&path).expect("a run file"))
            .collect()
    }
}

/// Runs the program with the argument `what` on `machine`.
fn ran(machine: &Fake, options: &[&str], what: &str) -> Ran {
    ran_with(machine, options, program(), &[OsStr::new(what)])
}

fn ran_with(machine: &Fake, options: &[&str], program: &Path, words: &[&OsStr]) -> Ran {
    let directory = tempfile::tempdir().expect("a directory");
    let reported = call(
        command()
            .envs(machine.env())
            .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
            .arg("exec")
            .args(options)
            .arg("--")
            .arg(program)
            .args(words),
    );
    Ran {
        reported,
        directory,
    }
}
