//! `cargo gpu-leak exec`: an unmodified program, watched from its first call to a GPU driver to its
//! end.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::process;

use gpu_leak_check::__command::{allow_entries, machine, variables};
use gpu_leak_check::__inject::Settings;
use gpu_leak_check::report::check_report::{CheckStatus, Code, Finding, Outcome, Report};
use gpu_leak_check::report::{escape, help};

use crate::arguments::Exec;
use crate::exit::{Exit, ExitResult, Failure};
use crate::launch;
use crate::output::say;
use crate::overview::Overview;
use crate::run::Run;
use crate::session::{self, Session};
use crate::workspace;

/// The documented environment variables that make PyTorch and JAX allocate every tensor directly
/// from the driver, without caching:
/// <https://docs.pytorch.org/docs/stable/cuda_environment_variables.html>,
/// <https://docs.jax.dev/en/latest/gpu_memory_allocation.html>.
const EXACT: [(&str, &str); 3] = [
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),
    ("XLA_PYTHON_CLIENT_ALLOCATOR", "platform"),
    ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
];

/// What to do about a process that ended without a result and without a snapshot.
const FOR_ABORTED: &str = "an aborted process was killed, ended without running exit handlers, \
                           or could not write its results: let it end by calling `exit` or by \
                           returning from `main`, or take snapshots with `--every`";

/// Runs the program and summarises its leaks. The exit code is the program's, unless that is 0.
pub(crate) fn run(args: &Exec) -> ExitResult<u8> {
    check_settings()?;
    let settings = Settings {
        again: Some(again(args)),
        directory: env::current_dir()
            .ok()
            .and_then(|it| it.into_os_string().into_string().ok()),
        every_ms: args
            .every
            .map(|every| every.as_millis().try_into().unwrap_or(u64::MAX)),
        signal: args.signal.number(),
        child_of: args.no_children.then(process::id),
        ..Settings::default()
    };
    let program = &args.program[0];
    let mut command = launch::watched(&args.program, &settings)?;
    let session = Session::new("exec", workspace::runs()?, args.name.as_deref(), args.peaks)?;
    if args.exact {
        command.envs(EXACT);
    }
    let code = session.run(command, args.every.is_some(), |why| {
        not_started(program, why)
    })?;
    let left_behind = session.left_behind().filter(|_| !args.no_children);
    let Some(run) = session.read()? else {
        let why = not_measured(program, args.no_children);
        say(format_args!("gpu-leak-check: {why}"));
        left_behind.into_iter().for_each(say);
        let run = Run {
            problems: vec![why],
            ..Run::default()
        };
        let unwritten = session::write_all(&Overview::of(&run), &args.outputs);
        return Ok(match code {
            0 => unwritten.unwrap_or(Exit::Unmeasured).code(),
            code => code,
        });
    };
    let overview = Overview::of(&run);
    let notes = hints(&run).into_iter().chain(left_behind);
    let unwritten = session::summarise(&overview, notes, &args.outputs);
    Ok(match (code, unwritten) {
        (0, Some(exit)) => exit.code(),
        (0, None) => judge(&overview, args.error_exitcode),
        (code, _) => code,
    })
}

/// Checks the configuration file and the environment variables before the program runs. Otherwise,
/// a mistake in an `[[allow]]` entry would show only after the run.
fn check_settings() -> ExitResult<()> {
    if let Some((path, shown)) = workspace::configuration() {
        allow_entries(&path, &shown).map_err(Failure::usage)?;
    }
    variables().map_err(Failure::usage)
}

/// Returns the command line that runs the program again.
fn again(args: &Exec) -> String {
    let words = args.program.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words
        .map(|word| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
            if !word.is_empty() && word.chars().all(is_plain) {
                word.into_owned()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    let exact = if args.exact { "--exact " } else { "" };
    format!("cargo gpu-leak exec {exact}-- {}", words.join(" "))
}

fn not_started(program: &OsStr, why: &io::Error) -> String {
    let program = escape::name(&program.to_string_lossy());
    match why.kind() {
        io::ErrorKind::NotFound if program.starts_with('-') => format!(
            "unknown option {program}: `cargo gpu-leak exec --help` lists the options, and the \
             program to run follows `--`"
        ),
        io::ErrorKind::NotFound => format!("no such program: {program}"),
        _ => format!("cannot start {program}: {why}"),
    }
}

fn not_measured(program: &OsStr, no_children: bool) -> String {
    let program = escape::name(&program.to_string_lossy());
    let children = if no_children {
        "; its child processes were not watched because of --no-children"
    } else {
        " or any of its child processes"
    };
    if let Err(why) = machine().driver {
        return format!("nothing was measured: no usable CUDA driver was found ({why})");
    }
    format!(
        "nothing was measured: the harness saw no initialisation of the CUDA driver or of Vulkan \
         in {program}{children}. A program cannot be watched if it is set-uid, statically linked or \
         built with AddressSanitizer, if it clears its environment, if another preloaded library \
         defines `dlsym`, or if only a library that was opened with RTLD_DEEPBIND calls the driver"
    )
}

/// Returns the notes of all reports and what to do about their findings. Each note is listed once,
/// since the processes of a program often have the same notes.
fn hints(run: &Run) -> Vec<String> {
    let of_report = |report: &Report| [&report.notes[..], report.lines_note().as_slice()].concat();
    let notes = run.reports().flat_map(of_report);
    let notes = notes.map(|note| format!("note: {}", escape::sentence(&note)));
    let help = run.reports().flat_map(help);
    let help = help.chain(run.aborted().map(|_| FOR_ABORTED.to_owned()));
    let help = help.map(|help| format!("help: {}", escape::sentence(&help)));
    let mut hints: Vec<_> = notes.chain(help).collect();
    let mut printed = BTreeSet::new();
    hints.retain(|hint| printed.insert(hint.clone()));
    hints
}

/// Returns the exit code of a run whose program succeeded.
fn judge(overview: &Overview<'_>, for_findings: u8) -> u8 {
    // A process that was killed may have freed the memory that it held at its last snapshot, so its
    // report is not judged.
    let mut judged = overview
        .run
        .reports()
        .filter(|report| report.status != CheckStatus::Aborted);
    let fails = |report: &Report| match report.outcome {
        // The outcome of a check inside the program decides, because the program may have caught
        // the panic of a failed check.
        Some(outcome) => outcome == Outcome::Fail && !report.status.is_unmeasured(),
        None => report.findings.iter().any(Finding::is_failure),
    };
    if judged.any(fails) {
        for_findings
    } else if !overview.aborted.is_empty() || is_blind(overview) {
        Exit::Unmeasured.code()
    } else {
        Exit::Clean.code()
    }
}

/// Whether anything was not measured or could not be read. A process that found no device did not
/// use one, so it counts only if no other process was measured.
fn is_blind(overview: &Overview<'_>) -> bool {
    let has_device = |report: &&Report| {
        let reason = report.reason.as_ref();
        reason.is_none_or(|reason| reason.code != Code::NoGpu)
    };
    !overview.has_measured()
        || !overview.run.problems.is_empty()
        || overview.unmeasured.iter().any(has_device)
}

#[cfg(test)]
mod tests {
    use gpu_leak_check::report::check_report::{FindingKind, Outcome, Report};

    use super::judge;
    use crate::overview::Overview;
    use crate::render::sample;

    #[test]
    fn a_check_in_the_program_counts_by_its_outcome() {
        let leak = sample::finding(FindingKind::Leaked, "optim::step", 2, 64);
        let judged = |outcome| {
            let report = Report {
                outcome,
                ..sample::with("a: step", std::slice::from_ref(&leak))
            };
            judge(&Overview::of(&sample::run(vec![report])), 42)
        };
        assert_eq!(judged(None), 42);
        assert_eq!(judged(Some(Outcome::Fail)), 42);
        assert_eq!(judged(Some(Outcome::Warn)), 0);
        assert_eq!(judged(Some(Outcome::Pass)), 0);
    }
}
