//! Judges a recording again, with the code that judges live checks.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;

use crate::capture::recording::{Line, RecordingHeader};
use crate::capture::replay::{self as events, RecordingError, Replayed};
use crate::judge::judge;
use crate::ledger::{Ledger, StackId};
use crate::report::check_report::{Frame, Owner, Report};
use crate::report::symbols::assembled;

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Replay {
    /// The header, which describes the writer of the recording and its machine.
    pub header: RecordingHeader,
    /// The reports of the checks that finished, in the order in which they finished. Neither the
    /// cost of a check nor its configuration file is recorded.
    pub reports: Vec<Report>,
    /// The tests whose checks did not finish.
    pub unfinished: Vec<String>,
    /// Whether the last line is incomplete, because the process ended while writing it. Such a line
    /// is ignored.
    pub torn: bool,
}

/// Judges every check in the recording at `path`. The `allow` entries of the attribute and the
/// configuration file are not recorded, so nothing is allowed to stay.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is not a recording, or was written by a release
/// with a later schema. The message contains the file and the line.
pub fn replay(path: impl AsRef<Path>) -> io::Result<Replay> {
    let path = path.as_ref();
    judge_again(&fs::read(path)?).map_err(|error| error_at(path, &error))
}

/// Returns the error for the recording at `path`, including the line.
pub(crate) fn error_at(path: &Path, error: &RecordingError) -> io::Error {
    let RecordingError { line, problem } = error;
    let path = path.display();
    let sentence = match line {
        0 => format!("{path}: {problem}"),
        line => format!("{path}:{line}: {problem}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, sentence)
}

pub(crate) fn judge_again(recording: &[u8]) -> Result<Replay, RecordingError> {
    let ledger = Ledger::new();
    let mut reports = Vec::new();
    let mut unfinished = Vec::new();
    let source = events::replay(recording, &ledger, |item| match item {
        Replayed::Line(line) => add(line, &mut reports, &mut unfinished),
        Replayed::Event(..) => Ok(()),
    })?;
    Ok(Replay {
        header: source.header,
        torn: source.torn,
        unfinished,
        reports,
    })
}

fn add(
    line: Line<Value>,
    reports: &mut Vec<Report>,
    unfinished: &mut Vec<String>,
) -> Result<(), String> {
    match line {
        Line::CheckBegan(subject) => unfinished.push(subject.test),
        Line::Check(mut input) => {
            if input.runs.is_empty() {
                return Err(format!("the check {:?} has no run", input.subject.test));
            }
            let begun = unfinished
                .iter()
                .rposition(|test| *test == input.subject.test);
            begun.map(|begun| unfinished.remove(begun));
            input.suppressions.clear();
            let result = judge(&input);
            reports.push(Report::of_check(&mut input, &result));
        }
        _ => {}
    }
    Ok(())
}

/// Returns the frames of a backtrace, using what the recording says about its addresses.
pub(crate) fn frames_of(
    ledger: &Ledger,
    symbols: &HashMap<usize, Vec<Frame>>,
    stack: StackId,
) -> Vec<Frame> {
    let words = ledger.stacks().frames(stack).iter();
    assembled(words.map(|word| {
        let unknown = || {
            vec![Frame {
                offset: Some(*word as u64),
                owner: Owner::Native,
                ..Frame::default()
            }]
        };
        (*word, symbols.get(word).cloned().unwrap_or_else(unknown))
    }))
}
