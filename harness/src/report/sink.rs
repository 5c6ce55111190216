//! Keeps this process's results in a file as they come.

use std::borrow::Cow;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::json::{
    Aborted, Attempt, Began, Header, Late, Lost, Record, SCHEMA, SNAPSHOT, Snapshot, Unowned,
    pid_space,
};
use super::model::Report;
use super::run_folder::{RunFolder, UNFINISHED, run_name};
use super::workspace::Workspace;
use crate::files::through_no_link;

/// The file of this process, made with the first check. Failing to write it fails no test.
#[derive(Debug)]
pub struct Sink(Mutex<SinkState>);

#[derive(Debug)]
enum SinkState {
    /// No check has begun.
    Waiting(RunFolder),
    /// The file is there. It is opened for each line: a program may close every file that it did
    /// not open itself, and give the number to another.
    Open { path: PathBuf },
    /// It could not be written; the sentence about it, until somebody has asked.
    GaveUp { why: Option<String> },
}

static GLOBAL: OnceLock<Sink> = OnceLock::new();

impl Sink {
    /// That of this process: `<target>/gpu-leak-check/<run>/<binary>-<pid>.jsonl`, or
    /// `<run>/<binary>-<pid>.jsonl` in `GPU_LEAK_CHECK_OUTPUT`.
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(|| {
            let workspace = Workspace::current();
            let output = env::var_os("GPU_LEAK_CHECK_OUTPUT").filter(|value| !value.is_empty());
            let base = match output {
                // As cargo's own paths: not where the test happens to run.
                Some(folder) => workspace.root().join(folder),
                None => workspace.target().join("gpu-leak-check"),
            };
            Self::new(base, Self::run())
        })
    }

    /// A file in the folder `run` of `base`.
    fn new(base: PathBuf, run: String) -> Self {
        Self(Mutex::new(SinkState::Waiting(RunFolder { base, run })))
    }

    /// The name of this process's run, by which another process takes part in it.
    pub fn run() -> String {
        run_name(|name| env::var(name).ok())
    }

    /// A check's body is about to run.
    pub fn began(&self, test: &str, file: &str, line: u32) {
        self.write(&Record::Began(Began {
            test: test.to_owned(),
            file: file.to_owned(),
            line,
        }));
    }

    /// A check is over.
    pub fn finished(&self, report: &Report) {
        self.write(&Record::Verdict(Cow::Borrowed(report)));
    }

    /// Threads outside every check took so much while `test` ran.
    pub fn unowned(&self, test: &str, count: u64, bytes: u64) {
        if count > 0 {
            self.write(&Record::Unowned(Unowned {
                test: test.to_owned(),
                count,
                bytes,
            }));
        }
    }

    /// Something was freed after its check's verdict.
    pub fn late(&self, late: Late) {
        self.write(&Record::Late(late));
    }

    /// The newest snapshot, which takes the place of the one before.
    pub fn snapshot(&self, snapshot: Snapshot<'_>) {
        let mut state = self.state();
        let SinkState::Open { path } = &*state else {
            return;
        };
        let newest = path.with_extension(SNAPSHOT);
        let unfinished = path.with_extension(UNFINISHED);
        let written = Record::Snapshot(snapshot)
            .to_line()
            .map_err(io::Error::from)
            .and_then(|line| write_anew(&unfinished, &line))
            .and_then(|()| fs::rename(&unfinished, &newest));
        if let Err(error) = written {
            *state = give_up(&newest, &error);
        }
    }

    /// An attached process has its verdict: the snapshot is of no more use.
    pub fn forget_snapshot(&self) {
        if let Some(path) = self.path() {
            // Err: there was none.
            let _ = fs::remove_file(path.with_extension(SNAPSHOT));
        }
    }

    /// The summary tells of a check that did not end.
    pub fn told(&self, aborted: Aborted) {
        self.write(&Record::Aborted(aborted));
    }

    /// The files of the run's other processes, once this one has its own.
    pub fn neighbours(&self) -> Vec<PathBuf> {
        let Some(own) = self.path() else {
            return Vec::new();
        };
        let entries = own.parent().and_then(|folder| fs::read_dir(folder).ok());
        let mut others: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| *path != own && path.extension().is_some_and(|end| end == "jsonl"))
            // A pipe would keep its reader waiting.
            .filter(|path| path.is_file())
            .collect();
        others.sort();
        others
    }

    /// Where the file is, once there is one.
    pub fn path(&self) -> Option<PathBuf> {
        match &*self.state() {
            SinkState::Open { path } => Some(path.clone()),
            SinkState::Waiting(_) | SinkState::GaveUp { .. } => None,
        }
    }

    /// Why results are not kept, told once; none while they are.
    pub fn note(&self) -> Option<String> {
        match &mut *self.state() {
            SinkState::GaveUp { why } => why.take(),
            SinkState::Open { path } if !path.exists() => Some(removed(path)),
            SinkState::Waiting(_) | SinkState::Open { .. } => None,
        }
    }

    fn write(&self, record: &Record<'_>) {
        let mut state = self.state();
        if let SinkState::Waiting(folder) = &*state {
            *state = match open(folder) {
                Ok(path) => SinkState::Open { path },
                Err(error) => give_up(&folder.base.join(&folder.run), &error),
            };
        }
        if let SinkState::Open { path } = &*state
            && let Err(error) = append(path, record)
        {
            last_words(path, &error);
            *state = match error.kind() {
                // It was there when it was made.
                io::ErrorKind::NotFound => SinkState::GaveUp {
                    why: Some(removed(path)),
                },
                _ => give_up(path, &error),
            };
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SinkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(folder: &RunFolder) -> io::Result<PathBuf> {
    let executable = env::current_exe().unwrap_or_default();
    let pid = process::id();
    let path = folder.create_file(&binary_name(&executable), pid)?;
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let header = Header {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        run: folder.run.clone(),
        pid,
        executable: executable.to_string_lossy().into_owned(),
        started_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        pid_space: pid_space(),
        attempt: attempt(|name| env::var(name).ok()),
    };
    append(&path, &Record::Header(header))?;
    Ok(path)
}

/// What [nextest says][1] of the attempt that this process is.
///
/// [1]: https://nexte.st/docs/configuration/env-vars/
fn attempt(variable: impl Fn(&str) -> Option<String>) -> Option<Attempt> {
    let number = |name| variable(name)?.parse().ok();
    let test = [
        variable("NEXTEST_BINARY_ID")?,
        variable("NEXTEST_TEST_NAME")?,
    ];
    Some(Attempt {
        test: test.join(" "),
        number: number("NEXTEST_ATTEMPT")?,
        round: number("NEXTEST_STRESS_CURRENT"),
    })
}

/// Writes a file in the place of what is left of another one.
fn write_anew(path: &Path, line: &[u8]) -> io::Result<()> {
    // Err: there is nothing, as nearly always.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(line)
}

/// One system call for the whole line, so that a process killed between two leaves whole ones. A
/// line that does not fit on the disk is taken back.
fn append(path: &Path, record: &Record<'_>) -> io::Result<()> {
    let mut file = through_no_link().append(true).open(path)?;
    let before = file.metadata()?.len();
    let written = file.write_all(&record.to_line()?);
    if written.is_err() {
        // Err: the reader knows what a torn line is.
        let _ = file.set_len(before);
    }
    written
}

/// Says that nothing follows, in the room of the line that was taken back: without it, the check
/// that is under way would pass for aborted.
fn last_words(path: &Path, error: &io::Error) {
    let lost = Record::Lost(Lost {
        why: error.to_string(),
    });
    // Err: there is no room for that either, and the process's last lines tell.
    let _ = append(path, &lost);
}

fn give_up(path: &Path, error: &io::Error) -> SinkState {
    SinkState::GaveUp {
        why: Some(format!(
            "results are not kept, for {} cannot be written: {error}; \
             set GPU_LEAK_CHECK_OUTPUT to a folder that can",
            path.display()
        )),
    }
}

fn removed(path: &Path) -> String {
    format!(
        "results are lost, for {} was removed while the tests ran",
        path.display()
    )
}

/// `train` of `target/debug/deps/train-0123456789abcdef`.
fn binary_name(executable: &Path) -> String {
    let name = executable.file_stem().unwrap_or_default().to_string_lossy();
    match name.rsplit_once('-') {
        Some((binary, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            binary.to_owned()
        }
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests;
