//! Shows the source line of a finding as the compiler would.

use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use gpu_leak_core::report::full;

use super::check_report::{Frame, Language};
use super::escape::spelled_out;
use super::style::Style;
use super::workspace::Workspace;

/// The most characters of a line that are shown.
const WIDEST: usize = 100;
/// How many of them are kept before the marker when the line's beginning is cut off.
const BEHIND_MARK: usize = 20;
/// The size of the largest source file of a run that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// Where source lines are read from.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
    built: Option<SystemTime>,
}

impl Sources {
    /// Uses the files of this process's workspace, which may have changed since the build.
    #[must_use]
    pub fn of_this_process() -> Self {
        let executable = std::env::current_exe().and_then(|path| path.metadata());
        Self {
            root: Workspace::current().root().to_owned(),
            built: executable.and_then(|data| data.modified()).ok(),
        }
    }

    /// Uses the source files below `root`, assumed to be the ones that were built. No other file is read: a run
    /// file may come from anywhere.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            built: None,
        }
    }

    /// Returns these lines of a file, counted from 1: fewer if it is shorter, none if it cannot be
    /// read.
    #[must_use]
    pub fn lines(&self, file: &str, numbers: RangeInclusive<u32>) -> Vec<String> {
        let lines = self
            .open(file)
            .map(|file| BufReader::new(file).split(b'\n'));
        let lines = lines.into_iter().flatten().map_while(Result::ok);
        let before = numbers.start().saturating_sub(1) as usize;
        let lines = lines.skip(before).take(numbers.count());
        lines
            .map(|text| String::from_utf8_lossy(&text).trim_end().to_owned())
            .collect()
    }

    fn open(&self, file: &str) -> Option<File> {
        let path = self.root.join(file);
        let is_own = self.built.is_some();
        if !is_own && !is_source_below(&self.root, file, &path) {
            return None;
        }
        let file = File::open(path).ok()?;
        file.metadata()
            .is_ok_and(|data| data.is_file())
            .then_some(file)
    }

    /// Returns a line of a file, counted from 1; `None` if it cannot be read.
    fn line(&self, file: &str, number: u32) -> Option<SourceLine> {
        let text = self.lines(file, number.max(1)..=number).pop()?;
        let modified = fs::metadata(self.root.join(file)).and_then(|data| data.modified());
        Some(SourceLine {
            text,
            edited: match (modified, self.built) {
                (Ok(modified), Some(built)) => modified > built,
                _ => false,
            },
        })
    }
}

/// Whether `file`, which is at `path`, is a source file below `root` that is not too large.
fn is_source_below(root: &Path, file: &str, path: &Path) -> bool {
    let mut parts = Path::new(file).components();
    let is_relative = parts.all(|part| matches!(part, Component::Normal(_)));
    let ends = ["rs", "c", "cc", "cpp", "cu", "cuh", "h", "hpp", "py"];
    let is_source = path
        .extension()
        .is_some_and(|end| ends.iter().any(|known| end == *known));
    let is_inside = || {
        Some(
            fs::canonicalize(path)
                .ok()?
                .starts_with(fs::canonicalize(root).ok()?),
        )
    };
    let is_small = || path.metadata().is_ok_and(|data| data.len() <= LARGEST);
    is_relative && is_source && is_inside() == Some(true) && is_small()
}

#[derive(Debug, PartialEq, Eq)]
struct SourceLine {
    text: String,
    /// Whether the file changed after the program was built, so that the line may be another one.
    edited: bool,
}

/// Writes the location of `frame` after `arrow`, its source line, a marker below the column, and `label`
/// after the marker.
pub(super) fn write(
    arrow: &str,
    frame: &Frame,
    label: &str,
    sources: &Sources,
    style: Style,
    out: &mut dyn Write,
) -> fmt::Result {
    let blue = style.frame();
    let red = style.mark();
    writeln!(out, "{blue}  {arrow}{blue:#} {}", full(frame))?;
    let source = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => sources.line(file, line).map(|source| (line, source)),
        _ => None,
    };
    let Some((line, source)) = source else {
        return writeln!(out, "{blue}      |{blue:#} {red}{label}{red:#}");
    };
    let number = line.to_string();
    let empty = " ".repeat(number.len());
    let shown = Marked::new(&source.text, frame.column, frame.language);
    writeln!(out, "{blue}{number:>5} |{blue:#} {}", shown.text)?;
    let edited = if source.edited {
        " (the file changed after the build)"
    } else {
        ""
    };
    let mark = "^".repeat(shown.length);
    let gap = if shown.length == 0 { "" } else { " " };
    writeln!(
        out,
        "{blue}{empty:>5} |{blue:#} {}{red}{mark}{gap}{label}{edited}{red:#}",
        " ".repeat(shown.start),
    )
}

/// Returns the length in bytes of the path at the start of `text`: `sys::cuMemAlloc_v2`, in Python
/// `torch.empty`. Without a path, returns the length of the first character.
fn path_length(text: &str, language: Language) -> usize {
    let joint = match language {
        Language::Python => ".",
        _ => "::",
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let word = |text: &str| text.find(|c| !is_part(c)).unwrap_or(text.len());
    let mut length = word(text);
    if length == 0 {
        return text.chars().next().map_or(0, char::len_utf8);
    }
    while let Some(next) = text[length..].strip_prefix(joint)
        && next.starts_with(is_part)
    {
        length += joint.len() + word(next);
    }
    length
}

/// A printable line with its marked range, in characters.
#[derive(Debug, PartialEq, Eq)]
struct Marked {
    text: String,
    start: usize,
    length: usize,
}

impl Marked {
    /// Marks the word of `line` at the byte `column`, counted from 1 as in debug information.
    fn new(line: &str, column: Option<u32>, language: Language) -> Self {
        let start = match column {
            Some(column @ 1..) => (column as usize - 1).min(line.len()),
            _ => line.len(),
        };
        let is_boundary = |at: &usize| line.is_char_boundary(*at);
        let start = (0..=start).rev().find(is_boundary).unwrap_or(0);
        let (before, rest) = line.split_at(start);
        let (word, after) = rest.split_at(path_length(rest, language));

        let shown = |part: &str| -> Vec<char> {
            spelled_out(part.replace('\t', "    ").chars())
                .chars()
                .collect()
        };
        let (before, word, after) = (shown(before), shown(word), shown(after));
        // A marker at the end of the line would point at nothing.
        let start = if word.is_empty() { 0 } else { before.len() };
        Self::cut([before, word.clone(), after].concat(), start, word.len())
    }

    /// Cuts the line to the width, but never the beginning of the marked range.
    fn cut(mut text: Vec<char>, mut start: usize, mut length: usize) -> Self {
        if text.len() > WIDEST {
            let first = (start + length + BEHIND_MARK)
                .saturating_sub(WIDEST)
                .min(start);
            if first > 0 {
                text.drain(..first);
                text.insert(0, '…');
                start = start - first + 1;
            }
            if text.len() > WIDEST {
                text.truncate(WIDEST - 1);
                text.push('…');
            }
            length = length.min(text.len() - start);
        }
        Self {
            text: text.into_iter().collect(),
            start,
            length,
        }
    }
}

#[cfg(test)]
mod tests;
