//! Writes this process's results to a file as they arrive.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use super::check_report::Report;
use super::owner::without_hash;
use super::run_directory::{RunDirectory, UNFINISHED, run_files, run_name, within_size_limit};
use super::run_file::{
    Attempt, Began, Environment, Header, Lost, ProcessSnapshot, Record, SNAPSHOT, Unchecked,
    Unowned, program_at,
};
use crate::exec_settings::{text_variable, variable};
use crate::files::through_no_link;
use crate::sync::{Mutex, OnceLock, locked};
use crate::workspace::Workspace;

/// The run file of this process, which is created at the first check. If it cannot be written, this
/// does not fail a test.
#[derive(Debug)]
pub struct Sink(Mutex<SinkState>);

#[derive(Debug)]
enum SinkState {
    /// No check has begun.
    Waiting(RunDirectory),
    /// The file exists. It is reopened for each line, because a program may close file descriptors
    /// that it did not open and then reuse their numbers.
    Open(PathBuf),
    /// The file could not be written. This holds the error message until it has been reported.
    GaveUp(Option<String>),
}

static GLOBAL: OnceLock<Sink> = OnceLock::new();

impl Sink {
    /// Returns the sink of this process, which writes to
    /// `<target>/gpu-leak-check/<run>/<binary>-<pid>.jsonl`, or to `<run>/<binary>-<pid>.jsonl` in
    /// `GPU_LEAK_CHECK_OUTPUT`.
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(|| {
            let workspace = Workspace::of_runner();
            let output = variable("GPU_LEAK_CHECK_OUTPUT").filter(|value| !value.is_empty());
            let base = match output {
                // The path is relative to the workspace, like cargo's own paths, and not to the
                // test's working directory.
                Some(directory) => workspace.root().join(directory),
                None => workspace.target().join("gpu-leak-check"),
            };
            Self::new(base, Self::run())
        })
    }

    /// Returns a sink whose file will be created in the directory `run` of `base`.
    fn new(base: PathBuf, run: String) -> Self {
        Self(Mutex::new(SinkState::Waiting(RunDirectory { base, run })))
    }

    /// Returns the name of this process's run. Another process can join the run by this name.
    pub fn run() -> String {
        run_name(text_variable)
    }

    /// Records that a check's body is about to run.
    pub fn began(&self, test: &str, file: &str, line: u32) {
        self.write(&Record::Began(Began {
            test: test.to_owned(),
            file: file.to_owned(),
            line,
        }));
    }

    /// Records that a check is over.
    pub fn finished(&self, report: &Report) {
        self.write(&Record::Verdict(report));
    }

    /// Records the allocations that threads outside any check made while `test` ran.
    pub fn unowned(&self, test: &str, count: u64, bytes: u64) {
        if count > 0 {
            self.write(&Record::Unowned(Unowned {
                test: test.to_owned(),
                count,
                bytes,
            }));
        }
    }

    /// Records which threads ran unchecked and created something.
    pub fn unchecked(&self, threads: &[String]) {
        if !threads.is_empty() {
            self.write(&Record::Unchecked(Unchecked {
                threads: threads.to_vec(),
            }));
        }
    }

    /// Writes the newest snapshot, which replaces the previous one. If that fails, the previous
    /// one stays, and the verdict may still be written.
    pub fn snapshot(&self, snapshot: &ProcessSnapshot) {
        let state = self.state();
        let SinkState::Open(path) = &*state else {
            return;
        };
        let newest = path.with_extension(SNAPSHOT);
        let unfinished = path.with_extension(UNFINISHED);
        let written = write_anew(&unfinished, &Record::Snapshot(snapshot))
            .and_then(|()| fs::rename(&unfinished, &newest));
        if written.is_err() {
            // On a full disk, the verdict needs the space.
            let _ = fs::remove_file(unfinished);
        }
    }

    /// Removes the snapshot of an attached process after its verdict has been written.
    pub fn forget_snapshot(&self) {
        if let Some(path) = self.path() {
            // An error means that there was no snapshot.
            let _ = fs::remove_file(path.with_extension(SNAPSHOT));
        }
    }

    /// Returns the files of the other processes of the run; none if this process has no file yet.
    pub fn neighbours(&self) -> Vec<PathBuf> {
        let Some(own) = self.path() else {
            return Vec::new();
        };
        let mut files = own
            .parent()
            .and_then(|it| run_files(it).ok())
            .unwrap_or_default();
        files.retain(|path| *path != own);
        files
    }

    /// Returns the path of the file, once it exists.
    pub fn path(&self) -> Option<PathBuf> {
        match &*self.state() {
            SinkState::Open(path) => Some(path.clone()),
            SinkState::Waiting(_) | SinkState::GaveUp(_) => None,
        }
    }

    /// Returns the reason why results are not saved, but only once; `None` while they are saved.
    pub fn note(&self) -> Option<String> {
        match &mut *self.state() {
            SinkState::GaveUp(why) => why.take(),
            SinkState::Open(path) if !path.exists() => Some(removed(path)),
            SinkState::Waiting(_) | SinkState::Open(_) => None,
        }
    }

    /// Adds a record to this process's file. Creates the file before the first record.
    pub fn write(&self, record: &Record<'_>) {
        let mut state = self.state();
        if let SinkState::Waiting(directory) = &*state {
            *state = match open(directory) {
                Ok(path) => SinkState::Open(path),
                Err(error) => {
                    last_words(&directory.marker(), &error);
                    give_up(&directory.base.join(&directory.run), &error)
                }
            };
        }
        if let SinkState::Open(path) = &*state
            && let Err(error) = append(path, record)
        {
            last_words(path, &error);
            *state = match error.kind() {
                // The file has existed, so it must have been removed since then.
                io::ErrorKind::NotFound => SinkState::GaveUp(Some(removed(path))),
                _ => give_up(path, &error),
            };
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SinkState> {
        locked(&self.0)
    }
}

fn open(directory: &RunDirectory) -> io::Result<PathBuf> {
    let executable = program_at(&env::current_exe().unwrap_or_default());
    let pid = process::id();
    let path = directory.create_file(&binary_name(executable.as_ref()), pid)?;
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let header = Header {
        executable,
        started_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        attempt: attempt(text_variable),
        environment: Environment::of_this_process(),
        ..Header::of(pid, &directory.run)
    };
    append(&path, &Record::Header(Box::new(header)))?;
    Ok(path)
}

/// Returns which [attempt of nextest][1] this process is.
///
/// [1]: https://nexte.st/docs/configuration/env-vars/
fn attempt(variable: impl Fn(&str) -> Option<String>) -> Option<Attempt> {
    let number = |name| variable(name)?.parse().ok();
    let binary = variable("NEXTEST_BINARY_ID")?;
    let test = variable("NEXTEST_TEST_NAME")?;
    Some(Attempt {
        test: format!("{binary} {test}"),
        run: variable("NEXTEST_RUN_ID")?,
        number: number("NEXTEST_ATTEMPT")?,
        round: number("NEXTEST_STRESS_CURRENT"),
    })
}

/// Writes a record to a new file. If another process has left a file with this name, it is
/// replaced.
fn write_anew(path: &Path, record: &Record<'_>) -> io::Result<()> {
    // An error usually means that the file did not exist.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let line = record.to_line()?;
    within_size_limit(line.len() as u64)?;
    file.write_all(&line)
}

/// Appends a line with a single system call, so that the file contains only whole lines if the
/// process is killed between two calls. If a line does not fit on the disk, its beginning is
/// removed again.
fn append(path: &Path, record: &Record<'_>) -> io::Result<()> {
    let mut file = through_no_link().append(true).open(path)?;
    let before = file.metadata()?.len();
    let line = record.to_line()?;
    within_size_limit(before + line.len() as u64)?;
    let written = file.write_all(&line);
    if written.is_err() {
        // An error is ignored, because readers ignore an incomplete last line.
        let _ = file.set_len(before);
    }
    written
}

/// Records that nothing follows, in the space of the line that was removed. Without this record,
/// the check in progress would seem to have been aborted, or a process without a file would seem to
/// have had no checks.
fn last_words(path: &Path, error: &io::Error) {
    let lost = Record::Lost(Lost {
        why: error.to_string(),
    });
    // An error means that there is no space for this record either. The lines that the process
    // prints at its end report the problem anyway.
    let _ = append(path, &lost);
}

fn give_up(path: &Path, error: &io::Error) -> SinkState {
    SinkState::GaveUp(Some(format!(
        "results are not saved: cannot write {}: {error}; set GPU_LEAK_CHECK_OUTPUT to a \
         writable directory",
        path.display()
    )))
}

fn removed(path: &Path) -> String {
    format!(
        "results are lost: {} was removed while the tests ran",
        path.display()
    )
}

/// Returns the program's name without cargo's hash: `train` for
/// `target/debug/deps/train-0123456789abcdef`.
fn binary_name(executable: &Path) -> String {
    let name = executable.file_stem().unwrap_or_default().to_string_lossy();
    without_hash(&name).unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests;
