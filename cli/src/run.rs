//! What the processes of a run wrote.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gpu_leak_check::__command::{is_recording, renew_fingerprints};
use gpu_leak_check::recording;
use gpu_leak_check::report::json::{
    self, Attempt, Began, Header, Late, RunFile, Snapshot, Unowned,
};
use gpu_leak_check::report::model::{CheckStatus, Reason, Report};
use gpu_leak_check::report::{Code, escape};

use crate::exit::{Failure, Outcome};
use crate::names;

/// Everything that one or more runs left.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// A file a process, by path.
    pub(crate) processes: Vec<Process>,
    /// Attempts at tests that a later one has taken the place of.
    pub(crate) earlier: Vec<Process>,
    /// The files that are recordings, whose checks are judged again.
    pub(crate) recordings: Vec<PathBuf>,
    /// What could not be read, a sentence each.
    pub(crate) problems: Vec<String>,
}

/// What one process left.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// The program: `train`.
    pub(crate) binary: String,
    /// Who wrote the file; none where that line is damaged.
    pub(crate) header: Option<Header>,
    pub(crate) reports: Vec<Report>,
    /// The checks that began and did not end.
    pub(crate) aborted: Vec<Began>,
    /// What threads outside every check took.
    pub(crate) unowned: Vec<Unowned>,
    /// What was freed after its check's verdict.
    pub(crate) late: Vec<Late>,
}

impl Process {
    fn attempt(&self) -> Option<(&str, &Attempt)> {
        let header = self.header.as_ref()?;
        Some((&header.run, header.attempt.as_ref()?))
    }

    /// Whether it is an attempt at the same test in the same run and round.
    fn is_another_attempt_of(&self, other: &Self) -> bool {
        match (self.attempt(), other.attempt()) {
            (Some((run, one)), Some((of_run, another))) => {
                (run, &one.test, one.round) == (of_run, &another.test, another.round)
            }
            _ => false,
        }
    }

    fn attempt_number(&self) -> u32 {
        self.attempt().map_or(0, |(_, attempt)| attempt.number)
    }
}

impl Run {
    /// Reads the runs in `folders`, as one. A file that cannot be read is a problem of the run; a
    /// folder without any is an error.
    pub(crate) fn read(folders: &[PathBuf]) -> Outcome<Self> {
        let mut files = Vec::new();
        for folder in folders {
            files.extend(files_of(folder)?);
        }
        // The same folder twice is one run, whatever it is called.
        files.sort_by_cached_key(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        let mut run = Self::default();
        for path in files {
            let read = if is_recording(&path) {
                run.recordings.push(path.clone());
                judged_again(&path)
            } else {
                json::read(&path)
            };
            match read {
                Ok(file) => run.add(&path, file),
                Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                    run.problems.push(why.to_string());
                }
                Err(why) => run
                    .problems
                    .push(format!("{} cannot be read: {why}", path.display())),
            }
        }
        run.forget_aborts_told_twice();
        run.set_earlier_attempts_aside();
        Ok(run)
    }

    /// Every finished check.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.processes.iter().flat_map(|process| &process.reports)
    }

    /// Every check without an end.
    pub(crate) fn aborted(&self) -> impl Iterator<Item = &Began> {
        self.processes.iter().flat_map(|process| &process.aborted)
    }

    /// What threads outside every check took.
    pub(crate) fn unowned(&self) -> impl Iterator<Item = &Unowned> {
        self.processes.iter().flat_map(|process| &process.unowned)
    }

    /// What was freed after its check's verdict.
    pub(crate) fn late(&self) -> impl Iterator<Item = &Late> {
        self.processes.iter().flat_map(|process| &process.late)
    }

    /// The attempts before `process`, the first one first.
    pub(crate) fn attempts_before(&self, process: &Process) -> Vec<&Process> {
        let earlier = self.earlier.iter();
        let mut earlier: Vec<_> = earlier
            .filter(|attempt| attempt.is_another_attempt_of(process))
            .collect();
        earlier.sort_by_key(|attempt| attempt.attempt_number());
        earlier
    }

    fn add(&mut self, path: &Path, mut file: RunFile) {
        // A copy of the same file, as two downloads of one artifact are.
        let is_known = |process: &Process| process.header == file.header;
        if file.header.is_some() && self.processes.iter().any(is_known) {
            return;
        }
        self.note_problems(path, &file);
        if file.header.as_ref().and_then(Header::is_running) == Some(true) {
            let under_way = std::mem::take(&mut file.aborted);
            if !under_way.is_empty() {
                self.problems.push(format!(
                    "{} of {} is under way: ask again when it is over",
                    tests(&under_way),
                    path.display()
                ));
            }
        }
        if let Some(snapshot) = file.snapshot.take()
            && file.aborted.pop().is_some()
        {
            file.reports.push(last_seen(snapshot));
        }
        file.reports.iter_mut().for_each(renew_fingerprints);
        self.processes.push(Process {
            binary: binary(path),
            header: file.header,
            reports: file.reports,
            aborted: file.aborted,
            unowned: file.unowned,
            late: file.late,
        });
    }

    /// Whatever is wrong with a file: what is whole in it counts all the same.
    fn note_problems(&mut self, path: &Path, file: &RunFile) {
        let shown = path.display();
        if file.header.is_none() {
            self.problems.push(format!(
                "{shown} has no header: it is damaged, or gpu-leak-check did not write it"
            ));
        }
        if file.torn {
            self.problems.push(format!(
                "the last line of {shown} is cut off: the process ended while it wrote, or the \
                 disk was full"
            ));
        }
        if let Some(why) = &file.lost_why {
            self.problems.push(format!(
                "{shown} could not be written to its end ({why}): checks may be missing"
            ));
        }
        if !file.lost.is_empty() {
            self.problems.push(format!(
                "the verdict of {} is lost: {shown} could not be written to its end",
                tests(&file.lost)
            ));
        }
        if file.unreadable > 0 {
            self.problems.push(format!(
                "{} of {shown} cannot be read; tests named as aborted may be theirs. A newer \
                 release may have written them: update cargo-gpu-leak",
                gpu_leak_check::units::quantity(file.unreadable as u64, "line"),
            ));
        }
    }

    /// Of a test in a process of its own that ended inside it, its file says that it began, and its
    /// parent's how it ended.
    fn forget_aborts_told_twice(&mut self) {
        let told: Vec<_> = self
            .reports()
            .filter(|report| report.status == CheckStatus::Aborted)
            .map(|report| (report.test.clone(), report.file.clone(), report.line))
            .collect();
        for process in &mut self.processes {
            process.aborted.retain(|began| {
                !told.iter().any(|(test, file, line)| {
                    (test, file, *line) == (&began.test, &began.file, began.line)
                })
            });
        }
    }

    /// Of several attempts at a test, the last one decides, as it does for the runner.
    fn set_earlier_attempts_aside(&mut self) {
        let all = std::mem::take(&mut self.processes);
        let is_last = |process: &Process| {
            !all.iter().any(|other| {
                other.is_another_attempt_of(process)
                    && other.attempt_number() > process.attempt_number()
            })
        };
        let last: Vec<bool> = all.iter().map(is_last).collect();
        for (process, is_last) in all.into_iter().zip(last) {
            if is_last {
                self.processes.push(process);
            } else {
                self.earlier.push(process);
            }
        }
    }
}

/// What the checks in a recording come to, as if their process had written it.
fn judged_again(path: &Path) -> io::Result<RunFile> {
    let replay = recording::replay(path)?;
    let aborted = replay.unfinished.into_iter().map(|test| Began {
        test,
        file: String::new(),
        line: 0,
    });
    Ok(RunFile {
        header: Some(Header {
            schema: json::SCHEMA,
            version: replay.header.version,
            run: path.display().to_string(),
            pid: replay.header.pid,
            executable: replay.header.program,
            started_ms: 0,
            pid_space: None,
            attempt: None,
        }),
        aborted: aborted.collect(),
        reports: replay.reports,
        torn: replay.torn,
        ..RunFile::default()
    })
}

/// `train::a, train::b`
fn tests(began: &[Began]) -> String {
    let tests: Vec<_> = began.iter().map(|began| began.test.as_str()).collect();
    names::some_of(&tests, 5)
}

/// What a process that came to no end of its own held when it was last looked at.
fn last_seen(snapshot: Snapshot<'_>) -> Report {
    let seconds = Duration::from_millis(snapshot.after_ms).as_secs_f64();
    let mut report = snapshot.report.into_owned();
    report.status = CheckStatus::Aborted;
    report.reason = Some(Reason::new(
        Code::ProcessEnded,
        format!(
            "the process has not come to its end; this is what it held {seconds:.1} s after its \
             beginning ({})",
            escape::sentence(&snapshot.cause)
        ),
        "let the program end by `exit` or by returning from `main`, or take snapshots more often",
    ));
    report
}

/// The folders of the runs in `base`, the newest first.
pub(crate) fn newest_first(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut runs: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter_map(|folder| {
            let files = jsonl_in(&folder).ok()?;
            let written = files
                .iter()
                .filter_map(|file| file.metadata().ok()?.modified().ok());
            Some((written.max()?, folder))
        })
        .collect();
    runs.sort_by(|left, right| right.cmp(left));
    runs.into_iter().map(|(_, folder)| folder).collect()
}

/// `path` itself, or the files of the run in that folder. A folder that holds one run and nothing
/// else, as `GPU_LEAK_CHECK_OUTPUT` makes one on a machine that keeps nothing, stands for that run.
fn files_of(path: &Path) -> Outcome<Vec<PathBuf>> {
    let shown = path.display();
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let files =
        jsonl_in(path).map_err(|why| Failure::usage(format!("{shown} cannot be read: {why}")))?;
    if !files.is_empty() {
        return Ok(files);
    }
    match &newest_first(path)[..] {
        [only] => jsonl_in(only)
            .map_err(|why| Failure::usage(format!("{} cannot be read: {why}", only.display()))),
        [newest, older @ ..] => Err(Failure::usage(format!(
            "{shown} is no run but holds {} runs: name one of them, such as {}",
            older.len() + 1,
            newest.display()
        ))),
        [] => Err(Failure::usage(format!(
            "{shown} has no .jsonl files: name the folder of a run, such as \
             target/gpu-leak-check/4711-1234"
        ))),
    }
}

fn jsonl_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl") && path.is_file())
        .collect())
}

/// `train` of `…/train-4711.jsonl`.
fn binary(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut name = &*stem;
    // The process's number, and which copy.
    for _ in 0..2 {
        match name.rsplit_once('-') {
            Some((front, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                name = front;
            }
            _ => break,
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::binary;

    #[test]
    fn a_program_is_known_by_its_files_name() {
        assert_eq!(binary(Path::new("a/train-4711.jsonl")), "train");
        assert_eq!(binary(Path::new("a/my-train-4711-2.jsonl")), "my-train");
        assert_eq!(binary(Path::new("a/train.jsonl")), "train");
    }
}
