//! `cargo gpu-leak test` and its like: cargo runs, and its checks are summed up.

use std::process::Command;

use crate::arguments::{Format, Passing};
use crate::deny::denied;
use crate::every_test;
use crate::exit::{Exit, Failure, Outcome, code_of};
use crate::output::say;
use crate::overview::Overview;
use crate::report;
use crate::run::Run;
use crate::words;
use crate::workspace::{self, Workspace};

/// Runs `cargo NAME` with the arguments asked for; the exit code is cargo's, unless that is a
/// success.
pub(crate) fn pass(name: &str, asked: &Passing) -> Outcome<u8> {
    pass_through(name, asked, None)
}

/// As [`pass`]; with a number, so many tests at once run each in a process of its own.
pub(crate) fn pass_through(name: &str, asked: &Passing, jobs: Option<usize>) -> Outcome<u8> {
    let runs = Workspace::here()?.runs();
    let run = workspace::fresh_run(name);
    let folder = runs.join(&run);
    let mut cargo = Command::new(workspace::cargo());
    cargo.arg(name);
    if let Some(jobs) = jobs {
        every_test::through_runner(&mut cargo, jobs)?;
    }
    let status = cargo
        .args(&asked.cargo)
        .env("GPU_LEAK_CHECK_RUN", &run)
        // Wherever cargo is told to build.
        .env("GPU_LEAK_CHECK_OUTPUT", &runs)
        .status()
        .map_err(|why| Failure::usage(format!("cargo does not run: {why}")))?;
    let cargos = code_of(status);
    if !folder.is_dir() {
        say(format_args!("gpu-leak-check: {}", none_ran(name, cargos)));
        // Where cargo is content, they reached the program that it ran.
        let misplaced = words::misplaced(name, &asked.cargo);
        for option in misplaced.iter().filter(|_| cargos != 0) {
            say(format_args!(
                "help: {option} is no option of cargo's but of `cargo gpu-leak {name}`, whose own come \
                 first: cargo gpu-leak {name} {option} …"
            ));
        }
        let blind = asked.judging.require_measured && cargos == 0;
        return Ok(if blind {
            Exit::Unmeasured.code()
        } else {
            cargos
        });
    }

    let folders = [folder];
    let run = Run::read(&folders)?;
    let overview = Overview::of(&run);
    say("");
    report::write(Format::Text, None, &run, &overview)?;
    for output in &asked.outputs {
        report::write(output.format, Some(&output.file), &run, &overview)?;
    }
    let denied = denied(&run, &overview, &asked.judging, &folders)?;
    for sentence in &denied {
        say(format_args!("denied: {sentence}"));
    }
    Ok(match cargos {
        // A test that ends its process with 0 takes all that failed beside it along.
        0 if !denied.is_empty() || !overview.aborted.is_empty() => Exit::Findings.code(),
        0 if asked.judging.require_measured && overview.is_blind() => Exit::Unmeasured.code(),
        cargos => cargos,
    })
}

/// Why there is nothing to sum up, and what to do if cargo is content.
fn none_ran(name: &str, cargos: u8) -> &'static str {
    match (cargos, name) {
        (0, "test" | "nextest") => {
            "no check ran: no test under #[gpu_leak_check] was among those that ran. Put it on tests, \
             or look at the filters; a target with `harness = false` needs gpu_leak_check::main!(), and \
             `cargo gpu-leak test --every-test` watches tests without the attribute"
        }
        (0, _) => {
            "no check ran: the program has no #[gpu_leak_check]. `cargo gpu-leak exec -- PROGRAM` \
             watches one as it is"
        }
        _ => "no check ran",
    }
}
