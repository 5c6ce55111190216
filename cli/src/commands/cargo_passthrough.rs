//! `cargo gpu-leak test`, `nextest`, `run` and `bench`: runs cargo's subcommand and summarises its
//! checks.

use std::ffi::OsString;
use std::process::Command;

use super::every_test;
use crate::arguments::Passing;
use crate::deny::{Denied, settings};
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::say;
use crate::overview::Overview;
use crate::run::Run;
use crate::session::{self, Session};
use crate::workspace::{self, Workspace};

/// Runs `cargo NAME` with the given arguments. With `every_test`, each test runs in its own
/// process, with that many tests at a time. The exit code is cargo's, unless that is 0.
pub(crate) fn run(name: &str, asked: &Passing, every_test: Option<usize>) -> ExitResult<u8> {
    let workspace = Workspace::here()?;
    let every_test = match name {
        "test" if every_test.is_none() && settings()?.every_test => Some(1),
        "nextest" if settings()?.every_test => {
            return Err(Failure::usage(
                "`every_test = true` needs `cargo gpu-leak test`: under nextest, only tests with the attribute \
             can be checked. To check those with nextest, remove `every_test` from gpu-leak-check.toml; to check \
             every test, run `cargo gpu-leak test --every-test`",
            ));
        }
        _ => every_test,
    };
    // This removes an earlier run of that name, so nothing may be wrong with the call.
    let session = Session::new(name, workspace.runs(), asked.name.as_deref(), asked.peaks)?;
    let mut cargo = Command::new(workspace::cargo());
    cargo.arg(name);
    if let Some(jobs) = every_test {
        every_test::set_runner(&mut cargo, jobs)?;
    }
    cargo.args(&asked.cargo);
    let code = session.run(cargo, false, |why| format!("cannot start cargo: {why}"))?;
    let Some(run) = session.read()? else {
        return without_checks(name, asked, code, every_test.is_some());
    };
    let overview = Overview::of(&run);
    let unwritten = session::sum_up(&overview, [], &asked.outputs);
    // cargo does not start the remaining programs once one has failed.
    let has_stopped = code != 0 && !asked.cargo.iter().any(|word| word == "--no-fail-fast");
    let names_all = ["--workspace", "--all"].map(OsString::from);
    let is_all = asked.cargo.iter().any(|word| names_all.contains(word));
    let is_part = has_stopped || (workspace.is_in_part() && !is_all) || selects_tests(&asked.cargo);
    let mut denied = Denied::in_run(&overview, &asked.judging, is_part)?;
    if !overview.has_measured() {
        denied.add_without_checks(&asked.judging)?;
    }
    denied.say();
    if !is_part {
        Denied::say_notes(&overview, &asked.judging)?;
    }
    Ok(match (code, unwritten) {
        (0, Some(exit)) => exit.code(),
        // cargo does not know that a child process of a test has failed, nor a test in a process
        // that another test ended with code 0.
        (0, None) if overview.has_findings() || overview.has_measured() => {
            asked.judging.code(denied.exit_of(&overview))
        }
        (0, None) => asked.judging.code(exit_without_checks(&denied)?),
        (code, _) => code,
    })
}

/// Returns the exit for a run in which nothing was checked. Such a run is not a success unless the
/// settings switch judging off.
fn exit_without_checks(denied: &Denied) -> ExitResult<Exit> {
    if denied.exit() != Exit::Clean || settings()?.may_check_nothing {
        return Ok(denied.exit());
    }
    say("error: nothing was checked");
    Ok(Exit::Unmeasured)
}

/// Whether cargo's arguments select packages, programs or tests, so that only part of the suite
/// runs.
fn selects_tests(cargos: &[OsString]) -> bool {
    /// Options that change how the suite is built, run or shown, or that add to the report. `run`
    /// is the subcommand of nextest.
    const HARMLESS: [&str; 21] = [
        "--",
        "-q",
        "-v",
        "-vv",
        "run",
        "--include-ignored",
        "--workspace",
        "--all",
        "--all-targets",
        "--all-features",
        "--no-default-features",
        "--release",
        "--no-fail-fast",
        "--locked",
        "--offline",
        "--frozen",
        "--quiet",
        "--verbose",
        "--nocapture",
        "--no-capture",
        "--show-output",
    ];
    /// Harmless options with a value. The value may be the next word.
    const WITH_VALUE: [&str; 10] = [
        "--features",
        "--profile",
        "--target",
        "--target-dir",
        "--color",
        "--jobs",
        "--test-threads",
        "-F",
        "-j",
        "--config",
    ];
    let mut words = cargos.iter().map(|word| word.to_str().unwrap_or_default());
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !HARMLESS.contains(&name) && !WITH_VALUE.contains(&name) {
            return true;
        }
    }
    false
}

/// Explains why there is nothing to summarise, and returns the exit code.
fn without_checks(name: &str, asked: &Passing, code: u8, every_test: bool) -> ExitResult<u8> {
    let why = match (code, name) {
        (0, _) if settings()?.may_check_nothing => {
            "no check ran. This is not an error, because checks are off or `without_gpu` is \"skip\""
        }
        (0, _) if every_test => {
            "no check ran: none of the tests that ran uses a GPU or an allocator that reports its \
             blocks. Check the filters and cargo's output above; `cargo gpu-leak doctor` shows \
             whether there is a GPU"
        }
        (0, "test" | "nextest") => {
            "no check ran: none of the tests that ran has #[gpu_leak_check]. Add the attribute to \
             tests, or check the filters; a target with `harness = false` needs \
             gpu_leak_check::main!(), and `cargo gpu-leak test --every-test` checks tests without \
             the attribute"
        }
        (0, _) => {
            "no check ran: the program has no #[gpu_leak_check]. `cargo gpu-leak exec -- PROGRAM` \
             watches an unmodified program"
        }
        _ => "no check ran",
    };
    say(format_args!("gpu-leak-check: {why}"));
    let unwritten = session::write_all(&Overview::of(&Run::default()), &asked.outputs);
    let denied = Denied::without_checks(&asked.judging)?;
    denied.say();
    Ok(match (code, unwritten) {
        (0, Some(exit)) => exit.code(),
        (0, None) => exit_without_checks(&denied)?.code(),
        (code, _) => code,
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::selects_tests;

    #[test]
    fn arguments_that_select_tests_run_a_part_of_the_suite() {
        let selects = |words: &str| {
            let words = words.split_whitespace().map(OsString::from);
            selects_tests(&words.collect::<Vec<_>>())
        };
        for whole in [
            "",
            "--workspace --release -j 4",
            "-- --include-ignored",
            "-- --include-ignored --test-threads=1",
        ] {
            assert!(!selects(whole), "{whole}");
        }
        for part in [
            "-p optim",
            "--lib",
            "-- --ignored",
            "-- --skip slow",
            "adam",
        ] {
            assert!(selects(part), "{part}");
        }
    }
}
