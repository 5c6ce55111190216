//! How `exec` and cargo's subcommands start a program, watch it and summarise the files that its
//! processes wrote.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use gpu_leak_check::__command::{NamedRun, SESSION, missing_file, run_files};
use gpu_leak_check::report::escape;

use crate::arguments::Output;
use crate::exit::{Exit, ExitResult, Failure, code_of};
use crate::launch;
use crate::output::{Stream, WIDTH, say};
use crate::overview::Overview;
use crate::progress;
use crate::render::{self, Format, Settings};
use crate::run::Run;
use crate::workspace;

/// A run of a program that the command starts, with the directory to which its processes write
/// their files.
#[derive(Debug)]
pub(crate) struct Session {
    runs: PathBuf,
    name: String,
    peaks: bool,
    /// Keeps an earlier run of this name until this one has begun.
    _named: Option<NamedRun>,
}

impl Session {
    /// Creates a run of the subcommand `kind`, whose directory will be in `runs`. Its name is
    /// `name`, the value of `GPU_LEAK_CHECK_RUN` or, without either, a new name. It replaces an
    /// earlier run of the same name once a check has begun. With `peaks`, its checks report the
    /// contents of each peak.
    pub(crate) fn new(
        kind: &str,
        runs: PathBuf,
        name: Option<&str>,
        peaks: bool,
    ) -> ExitResult<Self> {
        let variable = env::var("GPU_LEAK_CHECK_RUN").unwrap_or_default();
        // A run that is started inside another one, for example by a test, is a separate run: it
        // does not inherit the outer run's name.
        let outer = env::var(SESSION).unwrap_or_default();
        let is_outer = outer
            .split_once(' ')
            .is_some_and(|(_, outer)| outer == variable);
        let variable = if is_outer { String::new() } else { variable };
        let named = match name.unwrap_or(&variable) {
            "" => None,
            name => Some(NamedRun::begin(&runs, name).map_err(|why| {
                Failure::usage(format!("the run cannot be called {name}: {why}"))
            })?),
        };
        let name = match &named {
            Some(named) => named.name.clone(),
            None => workspace::new_run_name(kind),
        };
        Ok(Self {
            runs,
            name,
            peaks,
            _named: named,
        })
    }

    /// Returns the directory of this run's files. It does not exist until a check has begun.
    pub(crate) fn directory(&self) -> PathBuf {
        self.runs.join(&self.name)
    }

    /// Runs `command` to its end and returns its exit code. If its processes take snapshots, the
    /// terminal shows the memory that they hold. `not_started` is the message for a command that
    /// cannot be started.
    pub(crate) fn run(
        &self,
        mut command: Command,
        takes_snapshots: bool,
        not_started: impl FnOnce(&io::Error) -> String,
    ) -> ExitResult<u8> {
        command
            .env("GPU_LEAK_CHECK_RUN", &self.name)
            .env(SESSION, self.mark())
            // This variable is set even for cargo, because cargo may be configured to build in
            // another directory.
            .env("GPU_LEAK_CHECK_OUTPUT", &self.runs);
        if self.peaks {
            command.env("GPU_LEAK_CHECK_PEAKS", "true");
        }
        let _progress = progress::Program::watch(self.directory(), takes_snapshots);
        Ok(code_of(launch::run(command, not_started)?))
    }

    /// Returns the value of the variable by which processes of this run are recognised.
    fn mark(&self) -> String {
        format!("{} {}", process::id(), self.name)
    }

    /// Returns a note about processes that the program started and that are still running, or
    /// `None` if there are none. Such processes may use a GPU later.
    pub(crate) fn left_behind(&self) -> Option<String> {
        let mark = format!("{SESSION}={}", self.mark());
        let is_of_run = |process: &PathBuf| {
            let variables = fs::read(process.join("environ")).unwrap_or_default();
            let mut variables = variables.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let running = processes.map(|entry| entry.path()).filter(is_of_run);
        let shown = running.filter_map(|process| {
            let name = fs::read_to_string(process.join("comm")).ok()?;
            let pid = process.file_name()?.to_string_lossy();
            Some(format!("{} ({pid})", escape::name(name.trim_end())))
        });
        let shown: Vec<_> = shown.collect();
        (!shown.is_empty()).then(|| {
            format!(
                "note: processes of this run have not ended yet: {}; when they have, `cargo gpu-leak \
                 report {}` includes them",
                shown.join(", "),
                self.name
            )
        })
    }

    /// Returns the records that the processes of this run wrote, or `None` if no process had a
    /// check. If they could not write any, that is recorded as a problem of the run and is not an
    /// error, so that the program's exit code is kept.
    pub(crate) fn read(&self) -> ExitResult<Option<Run>> {
        let directory = self.directory();
        let shown = directory.display();
        let problem = match run_files(&directory) {
            Ok(files) if !files.is_empty() => return Run::read(&files).map(Some),
            Err(why) if directory.is_dir() => format!("cannot read {shown}: {why}"),
            found => {
                let why = missing_file(&directory).or_else(|| why_not_writable(&directory));
                if found.is_err() && why.is_none() {
                    return Ok(None);
                }
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                format!(
                    "no process could write its file to {shown}{why}: make sure that this \
                     directory is writable and that its disk is not full, or set \
                     GPU_LEAK_CHECK_OUTPUT to another directory"
                )
            }
        };
        Ok(Some(Run {
            problems: vec![problem],
            ..Run::default()
        }))
    }
}

/// Returns the reason, if any, why no file can be created in `directory`, which need not exist.
/// Creates and removes a file in the nearest directory that exists.
fn why_not_writable(directory: &Path) -> Option<String> {
    let nearest = directory.ancestors().find(|it| it.exists())?;
    Some(tempfile::tempfile_in(nearest).err()?.to_string())
}

/// Prints the summary of a run and then `hints` to standard error, since standard output belongs to
/// the program, and writes the files that `--report` requests. Returns the exit of the first output
/// that could not be written.
pub(crate) fn summarise(
    overview: &Overview<'_>,
    hints: impl IntoIterator<Item = String>,
    outputs: &[Output],
) -> Option<Exit> {
    say("");
    let unprinted = unwritten(print_report(Format::Text, Stream::Error, overview));
    hints.into_iter().for_each(say);
    unprinted.or(write_all(overview, outputs))
}

/// Writes the files that `--report` requests. An error is printed but does not end the command, so
/// that the other files are still written and the program's own exit code can be returned. Returns
/// the exit of the first error.
pub(crate) fn write_all(overview: &Overview<'_>, outputs: &[Output]) -> Option<Exit> {
    let written = outputs
        .iter()
        .map(|output| write_report(output.format, &output.file, overview));
    written.filter_map(unwritten).reduce(|first, _| first)
}

fn unwritten(written: ExitResult<()>) -> Option<Exit> {
    let failure = written.err()?;
    say(format_args!("error: {}", failure.message));
    Some(failure.exit)
}

/// Prints the report in one format to `stream`.
pub(crate) fn print_report(
    format: Format,
    stream: Stream,
    overview: &Overview<'_>,
) -> ExitResult<()> {
    if format.is_binary() && stream.is_terminal() {
        return Err(Failure::usage(
            "the snapshot format is binary: write it to a file with --out, or redirect standard \
             output",
        ));
    }
    stream
        .write(&rendered(format, stream.width(), overview)?)
        .map_err(|why| Failure::usage(format!("cannot write to {}: {why}", stream.name())))
}

/// Writes the report in one format to `file`.
pub(crate) fn write_report(format: Format, file: &Path, overview: &Overview<'_>) -> ExitResult<()> {
    fs::write(file, rendered(format, WIDTH, overview)?)
        .map_err(|why| Failure::cannot_write(file.display(), why))
}

fn rendered(format: Format, width: usize, overview: &Overview<'_>) -> ExitResult<Vec<u8>> {
    // Both paths may contain symbolic links.
    let resolved = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
    let how = Settings {
        width,
        root: resolved(workspace::root()),
        checkout: env::var_os("GITHUB_WORKSPACE").map(|it| resolved(it.into())),
    };
    render::render(format, overview, &how)
}
