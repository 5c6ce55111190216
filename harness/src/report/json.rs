//! The file of one process: a JSON object a line, for programs.
//!
//! First a header. Each check adds `began` before its body and `verdict` after it, so that a
//! test which took the process down is known by name. Fields and records may be added within a
//! schema version; readers skip what they do not know.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::model::Report;
use crate::units;

/// The version of what is written: raised when a reader of the old one would misunderstand.
pub const SCHEMA: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Record<'a> {
    /// The first line.
    Header(Header),
    /// A check's body is about to run.
    Began(Began),
    /// A check is over.
    Verdict(Cow<'a, Report>),
    /// What threads outside every check took while one ran; only where there was any.
    Unowned(Unowned),
    /// What a check found was freed after its verdict, which stays.
    Late(Late),
    /// The summary of this process has told of a check that did not end.
    Aborted(Aborted),
    /// Something a later release writes.
    #[serde(other)]
    Unknown,
}

/// Which process wrote the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The writer's release.
    pub version: String,
    /// The run it belongs to; the name of the file's folder.
    pub run: String,
    /// The process's number.
    pub pid: u32,
    /// The program's path.
    pub executable: String,
    /// When the file was begun: milliseconds since 1970 in UTC.
    pub started_ms: u64,
}

/// A check that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// The test's name, as in its report.
    pub test: String,
    /// Where the check stands, as in its report.
    pub file: String,
    /// The line in that file.
    pub line: u32,
}

/// What no check owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unowned {
    /// The check that ran meanwhile.
    pub test: String,
    /// How many allocations.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What was freed after a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// The test's name, as in its report.
    pub test: String,
    /// Where the check stands, as in its report.
    pub file: String,
    /// The line in that file.
    pub line: u32,
    /// How many resources.
    pub count: u64,
    /// How many bytes in all.
    pub bytes: u64,
    /// How long after the verdict the last of them.
    pub late_ms: u64,
}

impl Late {
    /// It in a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        format!(
            "{}: {}, {} of the leak freed after the verdict, late by {} ms: a longer `settle` \
             waits for what is on its way",
            self.test,
            units::quantity(self.count, "resource"),
            units::exact_size(self.bytes),
            units::count(self.late_ms),
        )
    }
}

/// A check that took its process down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborted {
    /// The process's number.
    pub pid: u32,
    /// The test's name.
    pub test: String,
}

impl Record<'_> {
    /// The line, with its end.
    ///
    /// # Errors
    ///
    /// When a value has no form in JSON.
    pub(super) fn to_line(&self) -> serde_json::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFile {
    /// Who wrote it; none when not even that line is whole.
    pub header: Option<Header>,
    /// The checks that came to their end, in that order.
    pub reports: Vec<Report>,
    /// The checks that did not.
    pub aborted: Vec<Began>,
    /// What no check owns, by the check that ran meanwhile.
    pub unowned: Vec<Unowned>,
    /// What was freed after its check's verdict.
    pub late: Vec<Late>,
    /// Checks of this or of another process that did not end, and of which this one has told.
    pub told: Vec<Aborted>,
    /// Whether the last line is cut off: the process ended while it wrote.
    pub torn: bool,
    /// How many other lines could not be read.
    pub unreadable: usize,
}

/// Reads the file at `path`.
///
/// # Errors
///
/// When it cannot be read, or its schema is a later one.
pub fn read(path: &Path) -> io::Result<RunFile> {
    let file = parse(&fs::read(path)?);
    match &file.header {
        Some(header) if header.schema > SCHEMA => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "{} was written by gpu-leak-check {} with schema {}; this release reads up to {SCHEMA}: \
                 update it",
                path.display(),
                header.version,
                header.schema,
            ),
        )),
        _ => Ok(file),
    }
}

pub(super) fn parse(bytes: &[u8]) -> RunFile {
    let mut file = RunFile::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else {
            file.torn = true;
            break;
        };
        match serde_json::from_slice(line) {
            Ok(Record::Header(header)) => file.header = Some(header),
            Ok(Record::Began(began)) => file.aborted.push(began),
            Ok(Record::Verdict(report)) => {
                // The innermost of those that look alike: blocks may nest.
                let began = file.aborted.iter().rposition(|began| {
                    (&began.test, &began.file, began.line)
                        == (&report.test, &report.file, report.line)
                });
                began.map(|at| file.aborted.remove(at));
                file.reports.push(report.into_owned());
            }
            Ok(Record::Unowned(unowned)) => file.unowned.push(unowned),
            Ok(Record::Late(late)) => file.late.push(late),
            Ok(Record::Aborted(aborted)) => file.told.push(aborted),
            Ok(Record::Unknown) => {}
            Err(_) => file.unreadable += 1,
        }
    }
    file
}

#[cfg(test)]
mod tests;
