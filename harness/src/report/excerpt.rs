//! Shows the source line of a finding as the compiler would.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use gpu_leak_core::judge::{LINES_AFTER, LINES_BEFORE};

use super::check_report::{Frame, Language};
use super::escape::spelled_out;
use super::text::Rendering;
use super::workspace::Workspace;

/// The maximum number of characters of a line that are shown.
const WIDEST: usize = 100;
/// How many characters are kept before the marker when the beginning of the line is cut off.
const BEHIND_MARK: usize = 20;
/// The size of the largest source file of a run that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// The maximum number of lines in a passage.
const LONGEST: u32 = 12;
/// How many lines before and after a passage may be shown with it.
const FARTHEST: u32 = 6;

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

    /// Uses the source files below `root`, assumed to be the ones that were built. No other file is
    /// read: a run file may come from anywhere.
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

    /// Returns these lines of a file and some of the same function around them, each with its
    /// number. Lines without a word, attributes and comments are left out.
    #[must_use]
    pub fn around(&self, file: &str, lines: RangeInclusive<u32>) -> Vec<(u32, String)> {
        let (first, last) = lines.into_inner();
        let last = last.clamp(first, first.saturating_add(LONGEST));
        let begin = first.saturating_sub(FARTHEST).max(1);
        let all = self.lines(file, begin..=last.saturating_add(FARTHEST));
        let all: Vec<_> = (begin..).zip(all).collect();
        let is_edge = |text: &str| {
            let mut words = text.split_whitespace().peekable();
            words.peek().is_none() || words.any(|word| word == "fn" || word == "def")
        };
        let is_code = |text: &str| {
            let text = text.trim_start();
            let is_aside = ["//", "#", "impl "].iter().any(|it| text.starts_with(it));
            !is_aside && text.contains(char::is_alphanumeric)
        };
        let start = all
            .iter()
            .rposition(|(at, text)| *at <= first && is_edge(text));
        let end = all
            .iter()
            .position(|(at, text)| *at > last && is_edge(text));
        let inside = &all[start.unwrap_or(0)..end.unwrap_or(all.len())];
        let code = inside
            .iter()
            .filter(|(at, text)| *at == first || is_code(text));
        let code: Vec<_> = code.collect();
        let before = code.partition_point(|(at, _)| *at < first);
        let until = code.partition_point(|(at, _)| *at <= last);
        let shown = code.into_iter().take(until + LINES_AFTER as usize);
        shown
            .skip(before.saturating_sub(LINES_BEFORE as usize))
            .cloned()
            .collect()
    }

    /// Whether a file changed after the program was built, so that its lines may differ.
    fn is_edited(&self, file: &str) -> bool {
        let modified = fs::metadata(self.root.join(file)).and_then(|data| data.modified());
        modified.is_ok_and(|modified| self.built.is_some_and(|built| modified > built))
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

/// Lines of a source file, to be written below their place.
#[derive(Debug)]
pub(super) struct Excerpt<'a> {
    pub(super) arrow: &'static str,
    pub(super) frame: &'a Frame,
    /// The place, and what is said about it.
    pub(super) heading: String,
    /// The text below the line of the frame, after a marker at its column.
    pub(super) label: Option<String>,
    /// The last line. If there is none, only the line of the frame is shown.
    pub(super) until: Option<u32>,
}

/// The lines of a finding that have been written: their files and numbers.
pub(super) type Shown = BTreeSet<(String, u32)>;

impl Excerpt<'_> {
    /// Writes the lines that are not yet in `shown`.
    pub(super) fn write(
        &self,
        how: &Rendering,
        shown: &mut Shown,
        out: &mut dyn Write,
    ) -> fmt::Result {
        let (blue, red) = (how.style.frame(), how.style.mark());
        let file = self.frame.file.as_deref().unwrap_or_default();
        let first = self.frame.line.unwrap_or(0);
        let all = first..=self.until.unwrap_or(first);
        let is_shown = |line| shown.contains(&(file.to_owned(), line));
        if self.label.is_none() && all.clone().all(is_shown) {
            return Ok(());
        }
        let (arrow, heading) = (self.arrow, &self.heading);
        writeln!(out, "{blue}  {arrow}{blue:#} {heading}")?;
        let mut lines = how.sources.around(file, all.clone());
        lines.retain(|(at, _)| self.until.is_some() || *at == first);
        if let (Some(label), None) = (&self.label, lines.iter().find(|(at, _)| *at == first)) {
            writeln!(out, "{blue}      |{blue:#} {red}{label}{red:#}")?;
        }
        for (number, text) in lines {
            let label = self.label.as_ref().filter(|_| number == first);
            if !shown.insert((file.to_owned(), number)) && label.is_none() {
                continue;
            }
            let column = self.frame.column.filter(|_| label.is_some());
            let marked = Marked::new(&text, column, self.frame.language);
            writeln!(out, "{blue}{number:>5} |{blue:#} {}", marked.text)?;
            let Some(label) = label else { continue };
            let empty = " ".repeat(number.to_string().len());
            let edited = match how.sources.is_edited(file) {
                true => " (the file changed after the build)",
                false => "",
            };
            let mark = "^".repeat(marked.length);
            let gap = if marked.length == 0 { "" } else { " " };
            writeln!(
                out,
                "{blue}{empty:>5} |{blue:#} {}{red}{mark}{gap}{label}{edited}{red:#}",
                " ".repeat(marked.start),
            )?;
        }
        shown.extend(all.map(|line| (file.to_owned(), line)));
        Ok(())
    }
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
