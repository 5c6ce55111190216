//! Excerpts of source files in the workspace.

use gpu_leak_check::report::check_report::Passage;
use gpu_leak_check::report::{Sources, escape};

/// How many lines are shown above and below the line of the finding.
const AROUND: u32 = 2;
/// The length at which a line is cut off, in characters.
const MAX_LINE: usize = 200;

#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    /// Whether this is the line of the finding, or the first line of a passage.
    pub(super) is_marked: bool,
}

/// Returns the line `number` of `file` and the lines around it. The result is empty if the file
/// cannot be read.
pub(super) fn excerpt(sources: &Sources, file: &str, number: u32) -> Vec<Line> {
    let first = number.saturating_sub(AROUND).max(1);
    let lines = sources.lines(file, first..=number.saturating_add(AROUND));
    let end = first as usize + lines.len();
    if number == 0 || number as usize >= end {
        return Vec::new();
    }
    let width = (end - 1).to_string().len();
    let lines = (first..).zip(&lines);
    let lines = lines.map(|(at, text)| line(at, text, width, at == number));
    lines.collect()
}

/// Returns the caption `says` of a passage and the lines of the passage. The result is empty if
/// they cannot be read.
pub(super) fn passage(sources: &Sources, passage: &Passage, says: &str) -> Vec<Line> {
    let frame = &passage.frame;
    let place = frame.file.as_deref().zip(frame.line);
    let lines = place.map(|(file, line)| sources.around(file, line..=passage.until));
    let lines = lines.unwrap_or_default();
    let Some((last, _)) = lines.last() else {
        return Vec::new();
    };
    let width = last.to_string().len();
    let says = format!("{}: {says}", frame.shown());
    let head = [String::new(), escape::sentence(&says)].map(|text| Line {
        text,
        is_marked: false,
    });
    let lines = lines.iter();
    let lines = lines.map(|(at, text)| line(*at, text, width, Some(*at) == frame.line));
    head.into_iter().chain(lines).collect()
}

fn line(number: u32, text: &str, width: usize, is_marked: bool) -> Line {
    let text = text.replace('\t', "    ");
    let cut: String = text.chars().take(MAX_LINE).collect();
    Line {
        text: format!("{number:>width$}  {}", escape::sentence(cut.trim_end())),
        is_marked,
    }
}
