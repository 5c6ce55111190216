//! Reads the files that the processes of a run wrote.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_leak_check::__command::{is_recording, missing_file};
use gpu_leak_check::ledger::Place;
use gpu_leak_check::recording;
use gpu_leak_check::report::check_report::{CheckStatus, Outcome, Reason, Report};
use gpu_leak_check::report::run_file::{
    self, Began, Environment, Header, Late, ProcessSnapshot, RunFile, Unowned,
};
use gpu_leak_check::report::{Code, device_title, escape};

use crate::exit::{ExitResult, Failure};
use crate::output::{say, test_names};
use crate::run_directories::files_of;

/// The contents of one or more runs.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The processes, one for each file, sorted by path. Earlier attempts at a test are in
    /// `earlier`.
    pub(crate) processes: Vec<Process>,
    /// The attempts at tests that were followed by a later attempt, in order.
    pub(crate) earlier: HashMap<AttemptedTest, Vec<Process>>,
    /// The files of the runs, with their paths as the user passed them or as they were found.
    pub(crate) files: Vec<PathBuf>,
    /// The files that are recordings. Their checks are judged again.
    pub(crate) recordings: Vec<PathBuf>,
    /// Problems with the files, such as lines that could not be read, one sentence each.
    pub(crate) problems: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Process {
    /// The name of the program, such as `optim::train`: the name of the program's package, followed
    /// by the program's own name if the two differ.
    pub(crate) binary: String,
    /// The contents of the run file that the process wrote.
    pub(crate) file: RunFile,
}

/// A test that its runner may attempt several times.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttemptedTest {
    /// The ID that the test runner gave to the run. Several runs, such as the jobs of a matrix, may
    /// have the same name.
    run: String,
    test: String,
    round: Option<u32>,
}

impl Process {
    /// Returns the test that the process attempted, and the number of the attempt.
    pub(crate) fn attempt(&self) -> Option<(AttemptedTest, u32)> {
        let attempt = self.file.header.as_ref()?.attempt.as_ref()?;
        let attempted = AttemptedTest {
            run: attempt.run.clone(),
            test: attempt.test.clone(),
            round: attempt.round,
        };
        Some((attempted, attempt.number))
    }
}

impl Run {
    /// Reads the runs in `directories` as one. A file that cannot be read is a problem of the run.
    /// A directory without files is an error.
    pub(crate) fn read(directories: &[PathBuf]) -> ExitResult<Self> {
        let mut files = Vec::new();
        for directory in directories {
            files.extend(files_of(directory)?);
        }
        // Neither the order nor the number may depend on how the directories are written.
        let resolved = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        files.sort_by_cached_key(resolved);
        files.dedup_by_key(|path| resolved(path));
        let mut run = Self::default();
        let directories: BTreeSet<_> = files.iter().filter_map(|file| file.parent()).collect();
        for directory in directories {
            run.problems.extend(missing_file(directory).map(|why| {
                format!(
                    "a process could not create its file in {} ({why}), so its checks are missing",
                    directory.display()
                )
            }));
        }
        let mut found = Vec::new();
        for path in files {
            run.files.push(path.clone());
            let read = if is_recording(&path) {
                run.recordings.push(path.clone());
                replay(&path)
            } else {
                run_file::read(&path)
            };
            match read {
                Ok(file) => found.push((path, file)),
                Err(why) if why.kind() == io::ErrorKind::InvalidData => {
                    run.problems.push(why.to_string());
                }
                Err(why) => run
                    .problems
                    .push(format!("cannot read {}: {why}", path.display())),
            }
        }
        for (path, file) in complete(found) {
            run.add(&path, file);
        }
        run.forget_duplicate_aborts();
        run.set_earlier_attempts_aside();
        Ok(run)
    }

    /// Returns an error if `older` is this run, because a comparison would show no difference.
    pub(crate) fn must_differ_from(&self, older: &Self) -> ExitResult<()> {
        let files = |run: &Self| -> BTreeSet<PathBuf> {
            let files = run.files.iter();
            files.filter_map(|it| fs::canonicalize(it).ok()).collect()
        };
        if files(self) != files(older) {
            return Ok(());
        }
        Err(Failure::usage(
            "the older run and the newer one are the same run: name two different runs",
        ))
    }

    /// Prints the files and lines that could not be read.
    pub(crate) fn say_problems(&self) {
        for problem in &self.problems {
            say(format_args!("note: {}", escape::sentence(problem)));
        }
    }

    /// Returns the checks that ended.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.processes
            .iter()
            .flat_map(|process| &process.file.reports)
    }

    /// Returns the checks that did not end.
    pub(crate) fn aborted(&self) -> impl Iterator<Item = &Began> {
        self.processes
            .iter()
            .flat_map(|process| &process.file.aborted)
    }

    /// Returns the allocations by threads outside any check.
    pub(crate) fn unowned(&self) -> impl Iterator<Item = &Unowned> {
        self.processes
            .iter()
            .flat_map(|process| &process.file.unowned)
    }

    /// Returns the program and the name of each unchecked thread. A thread that runs a test has the
    /// name of that test.
    pub(crate) fn unchecked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.processes.iter().flat_map(|process| {
            let threads = process.file.unchecked.iter();
            threads.map(|thread| (process.binary.as_str(), thread.as_str()))
        })
    }

    /// Returns where the run comes from. If a value differs between its processes, all values are
    /// listed.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let headers = || {
            self.processes
                .iter()
                .filter_map(|it| it.file.header.as_ref())
        };
        let dated = headers().filter(|header| header.started_ms > 0);
        let began = dated.min_by_key(|header| header.started_ms);
        let of = |value: fn(&Environment) -> Option<&String>| {
            let values = headers().filter_map(move |header| value(&header.environment));
            values.cloned().collect::<BTreeSet<_>>()
        };
        let devices = self.reports().flat_map(|report| &report.devices);
        let devices = devices.filter(|device| device.place != Place::HOST);
        let rows: [(_, BTreeSet<String>); 5] = [
            ("began", began.map(Header::started).into_iter().collect()),
            ("commit", of(|it| it.commit.as_ref())),
            ("machine", of(|it| it.host.as_ref())),
            ("driver", of(|it| it.driver.as_ref())),
            ("devices", devices.map(device_title).collect()),
        ];
        let rows = rows.into_iter().filter(|(_, values)| !values.is_empty());
        let text = |values: BTreeSet<String>| {
            let values: Vec<_> = values.iter().map(|value| escape::name(value)).collect();
            values.join(", ")
        };
        rows.map(|(label, values)| (label, text(values))).collect()
    }

    /// Returns the resources that were freed after the verdict of their check.
    pub(crate) fn late(&self) -> impl Iterator<Item = &Late> {
        self.processes.iter().flat_map(|process| &process.file.late)
    }

    /// Returns the processes of the attempts before `process`, in order. Each may contain other
    /// checks besides that of the test.
    pub(crate) fn attempts_before(&self, process: &Process) -> &[Process] {
        let attempt = process.attempt();
        let earlier = attempt.and_then(|(attempted, _)| self.earlier.get(&attempted));
        earlier.map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, path: &Path, mut file: RunFile) {
        self.note_problems(path, &file);
        if file.header.as_ref().and_then(Header::is_running) == Some(true) {
            let running = std::mem::take(&mut file.aborted);
            if !running.is_empty() {
                self.problems.push(format!(
                    "still running: {} ({}); run `cargo gpu-leak report` after the process has \
                     ended to see the results",
                    tests(&running),
                    path.display()
                ));
            }
        }
        if let Some(snapshot) = file.snapshot.take()
            && let began = Began::of(&snapshot.report)
            && let Some(at) = file.aborted.iter().position(|it| *it == began)
        {
            file.aborted.remove(at);
            file.reports.push(last_snapshot(snapshot));
        }
        pass_blocks_of_passed_tests(&mut file.reports);
        self.processes.push(Process {
            binary: program(path, file.header.as_ref()),
            file,
        });
    }

    /// Records the problems with a file. The file's undamaged lines still count.
    fn note_problems(&mut self, path: &Path, file: &RunFile) {
        let shown = path.display();
        if file.header.is_none() {
            self.problems.push(format!(
                "{shown} has no header: the file is damaged or was not written by gpu-leak-check"
            ));
        }
        if file.torn {
            self.problems.push(format!(
                "the last line of {shown} is cut off: the process ended while writing it, or the \
                 disk was full"
            ));
        }
        if let Some(why) = &file.lost_why {
            self.problems.push(format!(
                "{shown} could not be written completely ({why}): checks may be missing"
            ));
        }
        if !file.lost.is_empty() {
            self.problems.push(format!(
                "the verdict of {} is lost: {shown} could not be written completely",
                tests(&file.lost)
            ));
        }
        if let Some(first) = file.first_unreadable {
            self.problems.push(format!(
                "cannot read {} of {shown} (the first is line {first}), so finished tests may be \
                 listed as aborted. If the file is damaged, run the tests again; if several files were \
                 concatenated, pass them separately; if a newer release wrote the file, update \
                 cargo-gpu-leak",
                gpu_leak_check::units::quantity(file.unreadable as u64, "line"),
            ));
        }
    }

    /// Removes the second record of an isolated test whose process ended before the test did: the
    /// test's own file says that the test began, and the parent process's file says how it ended.
    /// The records of different attempts at a test are independent.
    fn forget_duplicate_aborts(&mut self) {
        let reported = self.processes.iter().flat_map(|process| {
            let reports = process.file.reports.iter();
            let aborted = reports.filter(|report| report.status == CheckStatus::Aborted);
            aborted.map(|report| (process.attempt(), Began::of(report)))
        });
        let reported: Vec<_> = reported.collect();
        for process in &mut self.processes {
            let of_process = process.attempt();
            let aborted = &mut process.file.aborted;
            aborted.retain(|began| !reported.contains(&(of_process.clone(), began.clone())));
        }
    }

    /// Sets aside all attempts at a test but the last. The last attempt decides, as for the test
    /// runner.
    pub(crate) fn set_earlier_attempts_aside(&mut self) {
        let mut last: HashMap<AttemptedTest, u32> = HashMap::new();
        for (attempted, number) in self.processes.iter().filter_map(Process::attempt) {
            let last = last.entry(attempted).or_default();
            *last = number.max(*last);
        }
        for process in std::mem::take(&mut self.processes) {
            match process.attempt() {
                Some((attempted, number)) if number < last[&attempted] => {
                    self.earlier.entry(attempted).or_default().push(process);
                }
                _ => self.processes.push(process),
            }
        }
        for attempts in self.earlier.values_mut() {
            attempts.sort_by_key(|process| process.attempt().map(|(_, number)| number));
        }
    }
}

/// Returns one copy of each file: there may be several, such as two downloads of the same artifact,
/// or one from before the process ended. Since a file only grows, the longest copy has all lines.
/// Files with the same header but different reports are not copies: two copies of the harness in
/// one process may have begun their files at the same moment.
fn complete(found: Vec<(PathBuf, RunFile)>) -> Vec<(PathBuf, RunFile)> {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    // A check that has begun in a copy may have ended since.
    let has_begun = |file: &RunFile, it: &Began| {
        file.aborted.contains(it)
            || file.lost.contains(it)
            || file.reports.iter().any(|report| Began::of(report) == *it)
    };
    let begins_with = |one: &RunFile, other: &RunFile| {
        one.reports.starts_with(&other.reports)
            && other.aborted.iter().all(|began| has_begun(one, began))
    };
    let mut copies: Vec<(PathBuf, RunFile)> = Vec::new();
    let mut known: HashMap<String, Vec<usize>> = HashMap::new();
    for (path, file) in found {
        // The text contains all fields, so two headers with the same text are equal.
        let header = file.header.as_ref().map(|header| format!("{header:?}"));
        let same = known.entry(header.unwrap_or_else(|| path.display().to_string()));
        let same = same.or_default();
        let is_copy = |at: &usize| {
            let (_, known) = &copies[*at];
            begins_with(known, &file) || begins_with(&file, known)
        };
        match same.iter().copied().find(is_copy) {
            Some(at) if length(&path) > length(&copies[at].0) => copies[at] = (path, file),
            Some(_) => {}
            None => {
                same.push(copies.len());
                copies.push((path, file));
            }
        }
    }
    copies
}

/// Judges the checks of a recording, as if their process had written the result.
fn replay(path: &Path) -> io::Result<RunFile> {
    let replay = recording::replay(path)?;
    let aborted = replay.unfinished.into_iter().map(|test| Began {
        test,
        file: String::new(),
        line: 0,
    });
    Ok(RunFile {
        header: Some(Header {
            schema: run_file::SCHEMA,
            version: replay.header.version,
            run: path.display().to_string(),
            pid: replay.header.pid,
            executable: replay.header.program,
            ..Header::default()
        }),
        aborted: aborted.collect(),
        reports: replay.reports,
        torn: replay.torn,
        ..RunFile::default()
    })
}

/// Returns, for example, `train::a, train::b`.
fn tests(began: &[Began]) -> String {
    let tests: Vec<_> = began.iter().map(|began| began.test.as_str()).collect();
    test_names(&tests, 5)
}

/// Marks failed blocks as passed if the check around them did not fail: the test caught or expected
/// their panics, and what they left was judged again. A process writes the report of a block before
/// the report of the check around it.
fn pass_blocks_of_passed_tests(reports: &mut [Report]) {
    for at in (0..reports.len()).rev() {
        let (block, later) = reports[at..].split_first_mut().expect("it is in range");
        let is_around = |it: &&mut Report| {
            let rest = block.test.strip_prefix(&*it.test);
            rest.is_some_and(|rest| rest.starts_with(": "))
        };
        if let Some(around) = later.iter_mut().find(is_around)
            && block.outcome == Some(Outcome::Fail)
            && around
                .outcome
                .is_some_and(|outcome| outcome != Outcome::Fail)
        {
            block.outcome = Some(Outcome::Pass);
        }
    }
}

/// Returns the last snapshot of a process that was killed, as the report of an aborted check.
fn last_snapshot(snapshot: ProcessSnapshot) -> Report {
    let seconds = Duration::from_millis(snapshot.after_ms).as_secs_f64();
    let cause = match &*snapshot.cause {
        "tick" => "by `--every`".to_owned(),
        "exit" => "when the process began to exit".to_owned(),
        signal => format!("on {}", escape::sentence(signal)),
    };
    let mut report = snapshot.report;
    report.status = CheckStatus::Aborted;
    report.reason = Some(Reason::new(
        Code::ProcessEnded,
        format!(
            "the process did not end normally; the figures are from its last snapshot, taken \
             {seconds:.1} s after the check began ({cause})"
        ),
        "let the program end by calling `exit` or by returning from `main`, or take snapshots more \
         often",
    ));
    report
}

/// Returns the name of the program that wrote the file. The name includes the package, because
/// several packages may have programs of the same name.
fn program(path: &Path, header: Option<&Header>) -> String {
    let binary = binary(path, header.map(|header| header.pid));
    match header.and_then(|header| header.environment.package.as_ref()) {
        // In a program's name, cargo replaces `-` with `_`.
        Some(package) if package.replace('-', "_") == binary.replace('-', "_") => package.clone(),
        Some(package) => format!("{package}::{binary}"),
        None => binary,
    }
}

/// Returns `train` for `…/train-4711.jsonl` and, if `pid` is 4711, for `…/train-4711-2.jsonl`. The
/// name of the program may itself end in a number.
fn binary(path: &Path, pid: Option<u32>) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let numbered = |name: &str| {
        let (front, number) = name.rsplit_once('-')?;
        Some((front.to_owned(), number.parse::<u32>().ok()?))
    };
    match numbered(&stem) {
        Some((front, copy)) if Some(copy) != pid => match numbered(&front) {
            Some((program, number)) if Some(number) == pid => program,
            _ => front,
        },
        Some((front, _)) => front,
        None => stem.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use gpu_leak_check::report::check_report::{CheckStatus, Report};
    use gpu_leak_check::report::run_file::{Attempt, Began, Header, ProcessSnapshot, RunFile};

    use super::{Process, Run, binary, complete};

    #[test]
    fn a_snapshot_of_a_killed_program_leaves_the_block_in_it_aborted() {
        let began = |test: &str| Began {
            test: test.to_owned(),
            file: String::new(),
            line: 0,
        };
        let mut run = Run::default();
        let file = RunFile {
            aborted: vec![began("program"), began("program: block")],
            snapshot: Some(ProcessSnapshot {
                cause: "tick".to_owned(),
                after_ms: 1,
                report: Report {
                    test: "program".to_owned(),
                    ..Report::default()
                },
            }),
            ..RunFile::default()
        };
        run.add(Path::new("program-1.jsonl"), file);
        let aborted: Vec<_> = run.aborted().map(|began| &*began.test).collect();
        assert_eq!(aborted, ["program: block"]);
        let reported: Vec<_> = run.reports().map(|report| &*report.test).collect();
        assert_eq!(reported, ["program"]);
    }

    /// The first attempt reports how the test ended, and the last one ends without a report.
    #[test]
    fn a_test_that_ends_its_process_in_each_attempt_is_aborted() {
        let process = |number| {
            let attempt = Attempt {
                test: "optim ends".to_owned(),
                run: "5f2c-aa".to_owned(),
                number,
                round: None,
            };
            let mut process = Process::default();
            process.file.header = Some(Header {
                attempt: Some(attempt),
                ..Header::default()
            });
            process
        };
        let (mut first, mut last) = (process(1), process(2));
        first.file.reports.push(Report {
            test: "ends".to_owned(),
            status: CheckStatus::Aborted,
            ..Report::default()
        });
        last.file.aborted.push(Began {
            test: "ends".to_owned(),
            file: String::new(),
            line: 0,
        });
        let mut run = Run {
            processes: vec![first, last],
            ..Run::default()
        };
        run.forget_duplicate_aborts();
        run.set_earlier_attempts_aside();
        assert_eq!(run.aborted().count(), 1);
    }

    /// A program and its plugin may each link the harness.
    #[test]
    fn two_files_that_a_process_began_at_one_moment_are_not_copies() {
        let file = |tests: &[&str]| RunFile {
            header: Some(Header::default()),
            reports: (tests.iter())
                .map(|test| Report {
                    test: (*test).to_owned(),
                    ..Report::default()
                })
                .collect(),
            ..RunFile::default()
        };
        let found = [&["a", "b"][..], &["a"], &["c"]].map(|tests| (PathBuf::new(), file(tests)));
        let kept = complete(found.into());
        let kept: Vec<_> = kept.iter().map(|(_, file)| file.reports.len()).collect();
        assert_eq!(kept, [2, 1]);
    }

    /// A file without reports may belong to a plugin in whose check the process ended.
    #[test]
    fn a_check_that_did_not_end_is_not_lost_with_a_copy() {
        let began = |test: &str| Began {
            test: test.to_owned(),
            file: String::new(),
            line: 0,
        };
        let with = |reports: &[&str], aborted: &[&str]| RunFile {
            header: Some(Header::default()),
            reports: (reports.iter())
                .map(|test| Report {
                    test: (*test).to_owned(),
                    ..Report::default()
                })
                .collect(),
            aborted: aborted.iter().map(|test| began(test)).collect(),
            ..RunFile::default()
        };
        let kept = |files: [RunFile; 2]| {
            let found = files.map(|file| (PathBuf::new(), file));
            complete(found.into()).len()
        };
        assert_eq!(kept([with(&["a"], &[]), with(&[], &["b"])]), 2);
        // The second file is a copy from before the process ended.
        assert_eq!(kept([with(&["a"], &["b"]), with(&[], &["a"])]), 1);
    }

    #[test]
    fn the_name_of_a_program_is_taken_from_its_file() {
        let binary = |file| binary(Path::new(file), Some(4711));
        assert_eq!(binary("a/train-4711.jsonl"), "train");
        assert_eq!(binary("a/my-train-4711-2.jsonl"), "my-train");
        assert_eq!(binary("a/phase-1-4711.jsonl"), "phase-1");
        assert_eq!(binary("a/phase-1-4711-2.jsonl"), "phase-1");
        assert_eq!(binary("a/train.jsonl"), "train");
        assert_eq!(binary("a/copy-1.jsonl"), "copy");
    }
}
