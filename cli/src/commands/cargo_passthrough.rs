//! `cargo gpu-leak test`, `nextest`, `run` and `bench`: runs cargo's subcommand and summarises its
//! checks.

use std::process::Command;

use super::cargo_arguments::CargoArguments;
use super::every_test;
use crate::arguments::Passthrough;
use crate::deny::{Denied, settings};
use crate::exit::{Exit, ExitResult, Failure};
use crate::output::say;
use crate::overview::Overview;
use crate::run::Run;
use crate::session::{self, Session};
use crate::workspace::{self, Workspace};

/// Runs `cargo NAME` with the given arguments. With `every_test`, each test runs in its own
/// process, and `every_test` is the number of tests that run at a time. The exit code is cargo's;
/// if that is 0, the checks determine the exit code.
pub(crate) fn run(name: &str, args: &Passthrough, every_test: Option<usize>) -> ExitResult<u8> {
    let arguments = CargoArguments {
        subcommand: name,
        args: &args.cargo,
    };
    if let Some(manifest) = arguments.manifest() {
        workspace::set_manifest(manifest);
    }
    let workspace = Workspace::here()?;
    let every_test = match name {
        "test" if every_test.is_none() && settings()?.every_test => Some(1),
        "nextest" if settings()?.every_test => {
            return Err(Failure::usage(
                "`every_test = true` needs `cargo gpu-leak test`: under nextest, only tests with \
                 the attribute can be checked. To check those with nextest, remove `every_test` \
                 from gpu-leak-check.toml; to check every test, run `cargo gpu-leak test \
                 --every-test`",
            ));
        }
        _ => every_test,
    };
    // The older run is read first, because the new run may have the same name and replace it.
    let older = if arguments.start_no_test() {
        None
    } else {
        args.judging.older(&[])?
    };
    let session = Session::new(name, workspace.runs(), args.name.as_deref(), args.peaks)?;
    let mut cargo = Command::new(workspace::cargo());
    cargo.arg(name);
    if let Some(jobs) = every_test {
        every_test::set_runner(&mut cargo, jobs)?;
    }
    cargo.args(&args.cargo);
    let code = session.run(cargo, false, |why| format!("cannot start cargo: {why}"))?;
    let Some(run) = session.read()? else {
        return match arguments.start_no_test() {
            true => Ok(code),
            false => without_checks(name, args, code, every_test.is_some()),
        };
    };
    let overview = Overview::of(&run);
    let unwritten = session::summarise(&overview, [], &args.outputs);
    // cargo does not start the remaining programs once one has failed.
    let has_stopped = code != 0 && !arguments.has("--no-fail-fast");
    let is_part = has_stopped || arguments.select_a_part(&workspace);
    let mut denied = Denied::in_run(&overview, &args.judging, is_part, older.as_ref())?;
    if !overview.has_measured() {
        denied.add_without_checks(&args.judging)?;
    }
    denied.say();
    if !is_part {
        Denied::say_notes(&overview, &args.judging)?;
    }
    let is_empty =
        !overview.has_findings() && !overview.has_measured() && !overview.fails_without_a_result();
    Ok(match (code, unwritten) {
        (0, Some(exit)) => exit.code(),
        // The settings may permit that nothing was checked, but not that results could not be read,
        // or that a check failed because it has no result.
        (0, None) if is_empty && overview.run.problems.is_empty() => {
            args.judging.code(exit_without_checks(&denied)?)
        }
        // cargo does not notice a failure in a child process of a test, or the failure of a test
        // whose process another test ended with code 0.
        (0, None) => args.judging.code(denied.exit_of(&overview)),
        (code, _) => code,
    })
}

/// Returns the exit for a run in which nothing was checked. Such a run succeeds only if the
/// settings permit it.
fn exit_without_checks(denied: &Denied) -> ExitResult<Exit> {
    if denied.exit() != Exit::Clean || settings()?.may_check_nothing {
        return Ok(denied.exit());
    }
    say("error: nothing was checked");
    Ok(Exit::Unmeasured)
}

/// Explains why there is nothing to summarise, and returns the exit code.
fn without_checks(name: &str, args: &Passthrough, code: u8, every_test: bool) -> ExitResult<u8> {
    let may_check_nothing = settings()?.may_check_nothing;
    let why = match (code, name) {
        (0, _) if may_check_nothing => {
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
    let mut run = Run::default();
    if !may_check_nothing {
        run.problems.push(why.to_owned());
    }
    let unwritten = session::write_all(&Overview::of(&run), &args.outputs);
    let mut denied = Denied::default();
    denied.add_without_checks(&args.judging)?;
    denied.say();
    Ok(match (code, unwritten) {
        (0, Some(exit)) => exit.code(),
        (0, None) => exit_without_checks(&denied)?.code(),
        (code, _) => code,
    })
}
