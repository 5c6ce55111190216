//! The run file of one process: one JSON object per line, for programs.
//!
//! The first line is a header. Each check adds a line `began` before its body and a line `verdict`
//! after it, so that a test during which the process ended can be reported. Fields and records may
//! be added within a schema version. Readers ignore those that they do not know.
//!
//! `docs/schema/run-1.json` is the JSON Schema of these types.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::check_report::Report;
use crate::judge::suppressions::Date;
use crate::units;

/// The version of the format, which is raised when a reader of the old version would misunderstand
/// the file.
pub const SCHEMA: u32 = 1;
/// The extension of the file with the newest snapshot of a process. It replaces the extension of
/// the process's own file.
pub(super) const SNAPSHOT: &str = "snapshot";

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record<'a> {
    /// The first line.
    Header(Box<Header>),
    /// A check's body is about to run.
    Began(Began),
    /// A check is over.
    Verdict(&'a Report),
    /// Allocations that threads outside any check made while a check ran. Absent if there were
    /// none.
    Unowned(Unowned),
    /// Threads that ran unchecked in this process and created something.
    Unchecked(Unchecked),
    /// Resources that a check reported and that were freed after its verdict, which does not
    /// change.
    Late(Late),
    /// The resources that an attached process held at one moment. The newest snapshot is in a
    /// separate file next to the process's run file until the verdict has been written.
    Snapshot(&'a ProcessSnapshot),
    /// The summary of this process has reported a check that did not end.
    Aborted(Aborted),
    /// The lines after this one could not be written, for example because the disk was full. This
    /// is always the last line.
    Lost(Lost),
}

/// Which process wrote the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Header {
    /// The version of the format that the writer used ([`SCHEMA`]).
    pub schema: u32,
    /// The release of gpu-leak-check that wrote the file.
    pub version: String,
    /// The run to which the process belongs, which is also the name of the file's directory.
    pub run: String,
    /// The process ID.
    pub pid: u32,
    /// The program's path.
    pub executable: String,
    /// When the file was created, in milliseconds since 1970 in UTC.
    pub started_ms: u64,
    /// Where `pid` is valid: in this boot of the machine, and in this process namespace. None if
    /// that is unknown.
    #[serde(default)]
    pub pid_space: Option<String>,
    /// The process's attempt at its test, if a runner starts a process for each attempt.
    #[serde(default)]
    pub attempt: Option<Attempt>,
    /// The machine, its driver and the sources.
    #[serde(default)]
    pub environment: Environment,
}

/// Where a run file comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Environment {
    /// The name of the machine.
    pub host: Option<String>,
    /// The release of NVIDIA's driver on the machine, such as `580.159.04`.
    pub driver: Option<String>,
    /// The commit of the sources, if they are in a git repository.
    pub commit: Option<String>,
    /// The package whose program runs, if cargo or another runner says so.
    pub package: Option<String>,
    /// The directory of that package's manifest.
    pub manifest_dir: Option<String>,
}

/// One of several attempts at a test. The last attempt determines the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Attempt {
    /// The runner's name for the test, such as `optim::train frees_everything`.
    pub test: String,
    /// The ID that the runner gave to its run. Each run has its own attempts.
    #[serde(default)]
    pub run: String,
    /// The number of the attempt, counted from 1.
    pub number: u32,
    /// The round of a stress run, as numbered by the runner. Each round has its own attempts.
    #[serde(default)]
    pub round: Option<u32>,
}

impl Header {
    /// Returns when the file was created, in the form `2026-11-23 11:43 UTC`.
    #[must_use]
    pub fn started(&self) -> String {
        let minutes = self.started_ms / 60_000;
        let (days, minutes) = (minutes / (24 * 60), minutes % (24 * 60));
        let (hour, minute) = (minutes / 60, minutes % 60);
        format!("{} {hour:02}:{minute:02} UTC", Date::from_days(days))
    }

    /// Whether the process is still running; `None` if this is unknown, because the file was
    /// written on another machine or in another process namespace.
    #[must_use]
    pub fn is_running(&self) -> Option<bool> {
        let here = pid_space()?;
        if self.pid_space.as_ref() != Some(&here) {
            return None;
        }
        // Process IDs are reused, so the program must also be the same.
        Some(program_of(self.pid).as_ref() == Some(&self.executable))
    }

    /// Returns a header that contains only what is known about every process of this machine.
    pub(super) fn of(pid: u32, run: &str) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: run.to_owned(),
            pid,
            executable: program_of(pid).unwrap_or_default(),
            pid_space: pid_space(),
            ..Self::default()
        }
    }
}

/// Returns the path of the program that a process of this user runs.
fn program_of(pid: u32) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(program_at(&link))
}

/// Returns the path of a running program as text. Linux adds ` (deleted)` to the path if the
/// program has been rebuilt since it was started.
pub(super) fn program_at(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.trim_end_matches(" (deleted)").to_owned()
}

/// Returns the namespace of this machine's process IDs, as this process sees it.
pub(super) fn pid_space() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// A check that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Began {
    /// The test's name, as in its report.
    pub test: String,
    /// The file that contains the check, as in its report.
    pub file: String,
    /// The line in that file.
    pub line: u32,
}

impl Began {
    /// Returns the beginning of the check that this report is about.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        Self {
            test: report.test.clone(),
            file: report.file.clone(),
            line: report.line,
        }
    }
}

/// Allocations without an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unowned {
    /// The check that was running.
    pub test: String,
    /// The number of allocations.
    pub count: u64,
    /// The number of bytes in these allocations.
    pub bytes: u64,
}

/// Threads that ran outside any check and used a GPU or an allocator that reports its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unchecked {
    /// The names of the threads, which are the names of tests. A name that ends with `…` has been
    /// cut off.
    pub threads: Vec<String>,
}

/// Resources that were freed after a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Late {
    /// The test's name, as in its report.
    pub test: String,
    /// The file that contains the check, as in its report.
    pub file: String,
    /// The line in that file.
    pub line: u32,
    /// The number of these resources.
    pub count: u64,
    /// The number of bytes in these resources.
    pub bytes: u64,
    /// The time from the verdict to the last of these frees, in milliseconds.
    pub late_ms: u64,
}

impl Late {
    /// Returns a sentence about the late frees.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "{}: the program freed {} of the leak ({}) {} ms after the verdict; set a longer `settle` \
             to wait for such frees",
            self.test,
            units::quantity(self.count, "resource"),
            units::exact_size(self.bytes),
            units::count(self.late_ms),
        )
    }
}

/// The resources that a process held at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessSnapshot {
    /// Why the snapshot was taken: `tick`, `exit`, or the name of a signal.
    pub cause: String,
    /// The time from the beginning of the check to the snapshot, in milliseconds.
    pub after_ms: u64,
    /// A report about the resources that were live at that moment.
    pub report: Report,
}

/// A check during which its process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Aborted {
    /// The process ID.
    pub pid: u32,
    /// The test's name.
    pub test: String,
}

/// The reason why the following lines could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lost {
    /// The system's error message.
    pub why: String,
}

impl Record<'_> {
    /// Returns the record as a line, including the line break.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be written as JSON.
    pub(super) fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// The contents of a run file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFile {
    /// The header; `None` if not even that line is complete.
    pub header: Option<Header>,
    /// The reports of the checks that finished, in the order in which they finished.
    pub reports: Vec<Report>,
    /// The checks that did not finish.
    pub aborted: Vec<Began>,
    /// Allocations that belong to no check, each with the check that ran at the same time.
    pub unowned: Vec<Unowned>,
    /// The names of the threads that ran unchecked and created something.
    pub unchecked: Vec<String>,
    /// Resources that were freed after their check's verdict.
    pub late: Vec<Late>,
    /// Aborted checks of this or another process that this process has reported.
    pub reported_aborted: Vec<Aborted>,
    /// The newest snapshot of the process, if its check did not finish.
    pub snapshot: Option<ProcessSnapshot>,
    /// Whether the last line is incomplete, because the process ended while writing it or the disk
    /// was full.
    pub torn: bool,
    /// The checks that finished but whose results are missing from the file.
    pub lost: Vec<Began>,
    /// Why the rest could not be written, if the process was still able to record the reason.
    pub lost_why: Option<String>,
    /// The number of other lines that could not be read.
    pub unreadable: usize,
    /// The number of the first of these lines, counted from 1.
    pub first_unreadable: Option<usize>,
}

/// The largest number of bytes in a line of a run file. A reader holds one line at a time, whatever
/// the size of the file.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Reads the run file at `path`.
///
/// ```no_run
/// use gpu_leak_check::report::run_file;
///
/// let path = "target/gpu-leak-check/nightly/train-4711.jsonl";
/// for report in run_file::read(path.as_ref())?.reports {
///     for finding in &report.findings {
///         println!("{}: {finding}", report.test);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the file cannot be read or has a later schema.
pub fn read(path: &Path) -> io::Result<RunFile> {
    let mut file = parse(BufReader::new(File::open(path)?))?;
    if !file.aborted.is_empty()
        && let Ok(beside) = File::open(path.with_extension(SNAPSHOT))
    {
        file.snapshot = parse(BufReader::new(beside))?.snapshot;
    }
    match &file.header {
        Some(header) if header.schema > SCHEMA => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} was written by gpu-leak-check {} with schema {}; this release reads only schemas up to \
                 {SCHEMA}: use a newer release",
                path.display(),
                header.version,
                header.schema,
            ),
        )),
        _ => Ok(file),
    }
}

pub(super) fn parse(mut from: impl BufRead) -> io::Result<RunFile> {
    let mut file = RunFile::default();
    let mut line = Vec::new();
    for number in 1.. {
        if !read_line(&mut from, &mut line)? {
            break;
        }
        match line.strip_suffix(b"\n") {
            Some(line) => {
                if file.add(line).is_err() {
                    file.unreadable += 1;
                    file.first_unreadable.get_or_insert(number);
                }
            }
            None => {
                file.torn = true;
                file.end_of_torn(&line);
            }
        }
        if file.header.as_ref().is_some_and(|it| it.schema > SCHEMA) {
            break;
        }
    }
    Ok(file)
}

/// Reads the next line into `line`. A line that is too long is cut off. Returns false at the end of
/// the file.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    from.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
    if line.len() as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
        line.truncate(1);
        line.push(b'\n');
        from.skip_until(b'\n')?;
    }
    Ok(!line.is_empty())
}

impl RunFile {
    /// Adds a line, unless it cannot be read. The kind of its record is read first, because the
    /// code that serde derives for a tagged type reads every record by way of a tree. That code
    /// would make up a fifth of the harness's code.
    fn add(&mut self, line: &[u8]) -> serde_json::Result<()> {
        #[derive(Deserialize)]
        struct Tag<'a> {
            #[serde(borrow)]
            record: Cow<'a, str>,
        }

        let Tag { record } = serde_json::from_slice(line)?;
        match &*record {
            "header" if self.header.is_none() => self.header = Some(serde_json::from_slice(line)?),
            "began" => self.aborted.push(serde_json::from_slice(line)?),
            "verdict" => {
                let report: Report = serde_json::from_slice(line)?;
                let ended = Began::of(&report);
                self.end_of(|began| *began == ended);
                self.reports.push(report);
            }
            "unowned" => self.unowned.push(serde_json::from_slice(line)?),
            "unchecked" => {
                let unchecked: Unchecked = serde_json::from_slice(line)?;
                self.unchecked.extend(unchecked.threads);
            }
            "late" => self.late.push(serde_json::from_slice(line)?),
            "snapshot" => self.snapshot = Some(serde_json::from_slice(line)?),
            "aborted" => self.reported_aborted.push(serde_json::from_slice(line)?),
            "lost" => {
                let lost: Lost = serde_json::from_slice(line)?;
                self.lost.append(&mut self.aborted);
                self.lost_why = Some(lost.why);
            }
            _ => {
                // A later release may have added a record. Otherwise the line is damaged, or
                // belongs to another file that was appended to this one.
                let version = self.header.as_ref().map(|header| &*header.version);
                if record == "header" || version == Some(env!("CARGO_PKG_VERSION")) {
                    return Err(serde_json::Error::custom("unknown kind of record"));
                }
            }
        }
        Ok(())
    }

    /// Removes a check that has ended from the list of those that began. Blocks can be nested, so
    /// the innermost match is removed.
    fn end_of(&mut self, is_it: impl Fn(&Began) -> bool) -> Option<Began> {
        let at = self.aborted.iter().rposition(is_it)?;
        Some(self.aborted.remove(at))
    }

    /// Handles a verdict that is cut off. Its result is unknown, but the check was not aborted.
    fn end_of_torn(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let Some(rest) = line.strip_prefix(r#"{"record":"verdict","test":"#) else {
            return;
        };
        let mut name = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        if let Some(Ok(test)) = name.next() {
            let ended = self.end_of(|began| began.test == test);
            self.lost.extend(ended);
        }
    }
}

#[cfg(test)]
mod tests;
