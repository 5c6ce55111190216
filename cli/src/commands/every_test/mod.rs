//! `cargo gpu-leak test --every-test`: each test in its own process, watched from outside.
//!
//! cargo runs the test programs through a runner, which is this command, so that directories,
//! variables, filters and the program's arguments are unchanged. The runner lists the tests of a
//! program and runs each one alone, and a test that leaves something fails. A test under
//! `#[gpu_leak_check]` checks itself.
//!
//! A program that links the harness watches itself, because only its own copy of the harness
//! gets the reports of allocators that use `gpu-leak-hooks`. Other programs are watched by the
//! library that is preloaded into them.

mod runner;
mod test_program;
mod test_reports;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpu_leak_check::__command::contents;
use gpu_leak_check::report::Sources;
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::units::quantity;

pub(crate) use self::runner::set_runner;
use self::test_program::{TestProgram, TestResult};
use self::test_reports::TestReports;
use crate::arguments::EveryTest;
use crate::exit::ExitResult;
use crate::output::{print, say};
use crate::{progress, workspace};

/// The variable that tells the runner how many tests to run at once.
const JOBS: &str = "GPU_LEAK_EVERY_TEST";
/// libtest's exit code if tests failed.
const FAILED: u8 = 101;

/// Acts as cargo's runner: runs a program's tests and returns libtest's exit code.
pub(crate) fn run(args: &EveryTest) -> ExitResult<u8> {
    let program = TestProgram::of(&args.program);
    let has = |word: &str| program.arguments.iter().any(|argument| argument == word);
    // A documentation test does not support `--list`: it would run instead.
    if has("--list") || program.path.file_name() == Some(OsStr::new("rust_out")) {
        return program.run_unwatched();
    }
    let Some(tests) = program.list(&[])? else {
        say(format_args!(
            "note: {} does not list its tests as libtest does, so it runs unchanged and is not \
             watched; `cargo gpu-leak exec` watches a whole program",
            program.path.display()
        ));
        return program.run_unwatched();
    };
    let reports = TestReports::of_this_run()?;
    let ignored = if has("--ignored") || has("--include-ignored") {
        BTreeSet::new()
    } else {
        program.list(&["--ignored"])?.unwrap_or_default()
    };
    let to_run: Vec<_> = tests.difference(&ignored).collect();
    print(&match tests.len() {
        1 => "\nrunning 1 test in its own process\n".to_owned(),
        number => format!(
            "\nrunning {}, each in its own process\n",
            quantity(number as u64, "test")
        ),
    });
    for test in &ignored {
        print(&format!("test {test} ... ignored\n"));
    }
    let contents = contents(program.path);
    let jobs = env::var(JOBS).ok().and_then(|jobs| jobs.parse().ok());
    let progress = progress::Tests::new(to_run.len());
    let results = run_all(&to_run, jobs.unwrap_or(1), |test| {
        progress.begins(test);
        let result = program.run(test, contents, &reports);
        progress.ends(test, &format!("test {test} ... {}\n", result.outcome()));
        result
    });
    let code = print_results(&results, ignored.len(), has("--show-output"));
    let is_deaf = contents.hooks && !contents.harness && !to_run.is_empty();
    Ok(match is_deaf && program.reports_to_nobody() {
        true if code == 0 => FAILED,
        _ => code,
    })
}

/// Runs each of `tests` on `jobs` threads and returns the results in the order of the tests.
fn run_all(
    tests: &[&String],
    jobs: usize,
    run: impl Fn(&str) -> TestResult + Sync,
) -> Vec<TestResult> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tests.len().max(1)) {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(test);
                    results.lock().expect("no thread panics here").push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics here");
    results.sort_by(|left: &TestResult, right| left.test.cmp(&right.test));
    results
}

/// Prints the failures and the last line as libtest does, and returns libtest's exit code.
fn print_results(results: &[TestResult], ignored: usize, shows_all: bool) -> u8 {
    let is_failed = |result: &&TestResult| !result.passed || result.is_denied();
    if shows_all {
        print("\nsuccesses:\n");
        for result in results.iter().filter(|result| !is_failed(result)) {
            print(&format!("\n---- {} ----\n", result.test));
            print(&String::from_utf8_lossy(&result.output));
        }
    }
    let failed: Vec<_> = results.iter().filter(is_failed).collect();
    if !failed.is_empty() {
        print("\nfailures:\n");
    }
    // Reports show the sources of the tests, not those that this program was built from.
    let how = Rendering {
        sources: Sources::below(workspace::root()),
        ..Rendering::for_stderr()
    };
    for result in &failed {
        print(&format!("\n---- {} ----\n", result.test));
        if !result.passed {
            print(&String::from_utf8_lossy(&result.output));
        }
        // A test that checks itself has already printed its report.
        let report = result.report.as_ref();
        if let Some(report) = report.filter(|it| result.is_denied() && it.is_of_a_program()) {
            print(&text::to_string(report, &how));
        }
    }
    if !failed.is_empty() {
        print("\nfailures:\n");
        for result in &failed {
            print(&format!("    {}\n", result.test));
        }
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    print(&format!(
        "\ntest result: {word}. {} passed; {} failed; {ignored} ignored\n\n",
        results.len() - failed.len(),
        failed.len()
    ));
    if failed.is_empty() { 0 } else { FAILED }
}
