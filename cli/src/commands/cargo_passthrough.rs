//! `cargo gpu-leak test`, `nextest`, `run` and `bench`: runs cargo's subcommand and sums up its checks.

use std::process::Command;

use super::every_test;
use super::own_options::misplaced;
use crate::arguments::Passing;
use crate::deny::denied;
use crate::exit::{Exit, Outcome};
use crate::output::say;
use crate::overview::Overview;
use crate::session::{self, Session};
use crate::workspace::{self, Workspace};

/// Runs `cargo NAME` with the arguments asked for. With `every_test`, that many tests at once run each
/// in a process of its own. The exit code is cargo's, unless that is 0.
pub(crate) fn run(name: &str, asked: &Passing, every_test: Option<usize>) -> Outcome<u8> {
    let session = Session::new(name, Workspace::here()?.runs());
    let mut cargo = Command::new(workspace::cargo());
    cargo.arg(name);
    if let Some(jobs) = every_test {
        every_test::set_runner(&mut cargo, jobs)?;
    }
    cargo.args(&asked.cargo);
    let code = session.run(cargo, false, |why| {
        format!("cargo cannot be started: {why}")
    })?;
    let Some(run) = session.read()? else {
        return Ok(without_checks(name, asked, code));
    };
    let overview = Overview::of(&run);
    session::sum_up(&overview, [], &asked.outputs)?;
    let denied = denied(&overview, &asked.judging, &[session.folder()])?;
    for sentence in &denied {
        say(format_args!("denied: {sentence}"));
    }
    Ok(match code {
        // A test that ends its process with 0 hides the failures of the tests beside it from cargo.
        0 if !denied.is_empty() || !overview.aborted.is_empty() => Exit::Findings.code(),
        0 if asked.judging.require_measured && overview.is_blind() => Exit::Unmeasured.code(),
        code => code,
    })
}

/// Explains why there is nothing to sum up, and returns the exit code.
fn without_checks(name: &str, asked: &Passing, code: u8) -> u8 {
    let why = match (code, name) {
        (0, "test" | "nextest") => {
            "no check ran: no test under #[gpu_leak_check] was among those that ran. Put it on tests, \
             or look at the filters; a target with `harness = false` needs gpu_leak_check::main!(), and \
             `cargo gpu-leak test --every-test` watches tests without the attribute"
        }
        (0, _) => {
            "no check ran: the program has no #[gpu_leak_check]. `cargo gpu-leak exec -- PROGRAM` \
             watches an unmodified program"
        }
        _ => "no check ran",
    };
    say(format_args!("gpu-leak-check: {why}"));
    // If cargo succeeded, it has passed the options on to a program that accepted them.
    if code != 0 {
        for option in misplaced(name, &asked.cargo) {
            say(format_args!(
                "help: {option} is an option of `cargo gpu-leak {name}`, not of cargo; the command's own \
                 options come first: cargo gpu-leak {name} {option} …"
            ));
        }
    }
    match code {
        0 if asked.judging.require_measured => Exit::Unmeasured.code(),
        code => code,
    }
}
