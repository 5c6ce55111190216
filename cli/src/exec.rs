//! `cargo gpu-leak exec`: a program as it is, watched from its first call of the CUDA driver to its
//! end.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{self, Command, ExitStatus};
use std::thread;

use gpu_leak_check::__command::{allow_entries, variables};
use gpu_leak_check::__inject::{Settings, VARIABLE};
use gpu_leak_check::report::model::{CheckStatus, Finding, Report};
use gpu_leak_check::report::{escape, help};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use self::started::Started;
use crate::arguments::{AskingSignal, Exec, Format};
use crate::exit::{Exit, Failure, Outcome, code_of};
use crate::library::{self, PRELOAD};
use crate::output::say;
use crate::overview::Overview;
use crate::run::Run;
use crate::{progress, report, workspace};

mod started;

/// The whole of `exec`; the exit code is the program's, unless that is a success.
pub(crate) fn exec(asked: &Exec) -> Outcome<u8> {
    refuse_wrong_settings()?;
    let runs = workspace::runs()?;
    let name = workspace::fresh_run("exec");
    let settings = Settings {
        again: Some(again(asked)),
        every_ms: asked
            .every
            .map(|every| every.as_millis().try_into().unwrap_or(u64::MAX)),
        signal: signal(asked.signal),
        child_of: asked.no_children.then(process::id),
        ..Settings::default()
    };
    let progress = progress::Program::watch(runs.join(&name), asked.every.is_some());
    let status = watched(&asked.program, &settings, &runs, &name)?;
    drop(progress);
    let programs = code_of(status);

    let folder = runs.join(&name);
    if !folder.is_dir() {
        say(format_args!(
            "gpu-leak-check: {}",
            unseen(&asked.program[0], asked.no_children)
        ));
        return Ok(if programs == 0 {
            Exit::Unmeasured.code()
        } else {
            programs
        });
    }
    let run = Run::read(&[folder])?;
    let overview = Overview::of(&run);
    say("");
    report::write(Format::Text, None, &run, &overview)?;
    let mut printed = BTreeSet::new();
    let notes = run.reports().flat_map(|report| &report.notes);
    for note in notes.filter(|note| printed.insert(*note)) {
        say(format_args!("note: {}", escape::sentence(note)));
    }
    for help in advice(&run) {
        say(format_args!("help: {}", escape::sentence(&help)));
    }
    for output in &asked.outputs {
        report::write(output.format, Some(&output.file), &run, &overview)?;
    }
    Ok(match programs {
        0 => weigh(&run, &overview, asked.error_exitcode),
        code => code,
    })
}

/// A wrong file or variable is printed before the program runs: what it allows may be what matters.
fn refuse_wrong_settings() -> Outcome<()> {
    if let Some((path, shown)) = workspace::configuration() {
        allow_entries(&path, &shown).map_err(Failure::usage)?;
    }
    variables().map_err(Failure::usage)
}

/// Runs `program` with the library in it, and waits for its end.
pub(crate) fn watched(
    program: &[OsString],
    settings: &Settings,
    runs: &Path,
    run: &str,
) -> Outcome<ExitStatus> {
    let mut command = watching(program, settings, runs, run)?;
    // Before the program is there to be missed.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
        .map_err(|why| Failure::usage(format!("signals cannot be heard: {why}")))?;
    let child = command
        .spawn()
        .map_err(|why| Failure::usage(not_started(&program[0], &why)))?;
    let started = Started::new(&child);
    let recipient = started.clone();
    thread::spawn(move || {
        for signal in &mut signals {
            // A terminal sends these to the program as well.
            if !matches!(signal, SIGINT | SIGQUIT) {
                recipient.hand_on(signal);
            }
        }
    });
    started
        .wait(child)
        .map_err(|why| Failure::usage(format!("the program cannot be waited for: {why}")))
}

/// `program` with the library in it.
pub(crate) fn watching(
    program: &[OsString],
    settings: &Settings,
    runs: &Path,
    run: &str,
) -> Outcome<Command> {
    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .env(PRELOAD, preloaded()?)
        .env(VARIABLE, settings.to_value())
        .env("GPU_LEAK_CHECK_RUN", run)
        .env("GPU_LEAK_CHECK_OUTPUT", runs);
    Ok(command)
}

/// What is preloaded already, which may have to come first, and the library.
fn preloaded() -> Outcome<OsString> {
    let library = library::path()?;
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::usage(format!(
            "{} cannot be preloaded, for its path has a space or a colon: set XDG_CACHE_HOME to a \
             folder without one",
            escape::name(&library.to_string_lossy())
        )));
    }
    let mut all = env::var_os(PRELOAD).unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(library);
    Ok(all)
}

fn signal(asked: AskingSignal) -> Option<i32> {
    match asked {
        AskingSignal::Usr1 => Some(SIGUSR1),
        AskingSignal::Usr2 => Some(SIGUSR2),
        AskingSignal::None => None,
    }
}

/// The command line that does the same again.
fn again(asked: &Exec) -> String {
    let words = asked.program.iter().map(|word| word.to_string_lossy());
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
    format!("cargo gpu-leak exec -- {}", words.join(" "))
}

fn not_started(program: &OsStr, why: &io::Error) -> String {
    let program = escape::name(&program.to_string_lossy());
    match why.kind() {
        io::ErrorKind::NotFound if program.starts_with('-') => format!(
            "there is no option {program}: `cargo gpu-leak exec --help` lists them, and the program \
             comes behind a `--`"
        ),
        io::ErrorKind::NotFound => format!("there is no program {program}"),
        _ => format!("{program} cannot be started: {why}"),
    }
}

fn unseen(program: &OsStr, no_children: bool) -> String {
    let program = escape::name(&program.to_string_lossy());
    let children = if no_children {
        "; what it starts was left alone, as --no-children says"
    } else {
        ", nor from anything that it started"
    };
    format!(
        "nothing was measured: no initialisation of the CUDA driver was heard from {program}{children}. \
         A program that is set-uid or linked statically, that clears its environment, or that runs \
         under compute-sanitizer or Nsight Compute, is not heard"
    )
}

/// What to do about the findings, each sentence once: a program starts others like itself.
fn advice(run: &Run) -> Vec<String> {
    let mut advice: Vec<_> = run.reports().flat_map(help).collect();
    let mut printed = BTreeSet::new();
    advice.retain(|sentence| printed.insert(sentence.clone()));
    advice
}

/// What the run means, where the program itself is content.
fn weigh(run: &Run, overview: &Overview<'_>, for_findings: u8) -> u8 {
    // What a process held when it was last looked at it may have given back since.
    let mut judged = run
        .reports()
        .filter(|report| report.status != CheckStatus::Aborted);
    let is_failing = |report: &Report| {
        let mut findings = report.findings.iter();
        findings.any(Finding::is_failure)
    };
    if judged.any(is_failing) {
        for_findings
    } else if !overview.aborted.is_empty() || overview.is_blind() {
        Exit::Unmeasured.code()
    } else {
        Exit::Clean.code()
    }
}
