//! Excerpts of source files in the workspace.

use gpu_leak_check::report::{Sources, escape};

/// How many lines are shown above and below the one of the finding.
const AROUND: u32 = 2;
/// The length at which a line is cut off, in characters.
const MAX_LINE: usize = 200;

/// A line of source.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) text: String,
    /// Whether it is the line of the finding.
    pub(super) is_marked: bool,
}

/// The line `number` of `file` and those around it; empty if it cannot be read.
pub(super) fn excerpt(sources: &Sources, file: &str, number: u32) -> Vec<Line> {
    let first = number.saturating_sub(AROUND).max(1);
    let lines = sources.lines(file, first..=number.saturating_add(AROUND));
    let end = first as usize + lines.len();
    if number == 0 || number as usize >= end {
        return Vec::new();
    }
    let width = (end - 1).to_string().len();
    let line = |(at, line): (u32, &String)| {
        let line = line.replace('\t', "    ");
        let cut: String = line.chars().take(MAX_LINE).collect();
        Line {
            text: format!("{at:>width$}  {}", escape::sentence(cut.trim_end())),
            is_marked: at == number,
        }
    };
    (first..).zip(&lines).map(line).collect()
}
