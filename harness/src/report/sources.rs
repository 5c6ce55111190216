//! Reads the source lines that reports show.

use std::fs;
use std::io::BufRead;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use gpu_leak_core::judge::{LINES_AFTER, LINES_BEFORE};

use crate::workspace::Workspace;

/// The largest size, in bytes, of a source file that is read.
const LARGEST: u64 = 4 << 20;

/// The maximum number of lines of a passage after its first line.
pub(super) const LONGEST: u32 = 12;
/// How many lines before and after a passage are searched for lines to show with it.
const FARTHEST: u32 = 6;

/// Where source lines are read from.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
    built: Option<SystemTime>,
}

impl Sources {
    /// Returns the source files of this process's workspace, which may have changed since the
    /// build.
    pub fn of_this_process() -> Self {
        // A build may replace the file while this process still runs the old program.
        static BUILT: OnceLock<Option<SystemTime>> = OnceLock::new();

        let built = || {
            let executable = std::env::current_exe().ok()?;
            executable.metadata().ok()?.modified().ok()
        };
        Self {
            root: Workspace::current().root().to_owned(),
            built: *BUILT.get_or_init(built),
        }
    }

    /// Returns the source files below `root`, which are assumed to be those that were built. No
    /// other file is read, because a run file may come from anywhere.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            built: None,
        }
    }

    /// Returns these lines of a file, counted from 1. If the file is shorter, there are fewer
    /// lines; if it cannot be read, there are none.
    pub fn lines(&self, file: &str, numbers: RangeInclusive<u32>) -> Vec<String> {
        self.read(file).lines(numbers)
    }

    /// Returns these lines of a file and some lines around them in the same function, each with its
    /// number. Attributes, comments and lines without a word are left out.
    pub fn around(&self, file: &str, lines: RangeInclusive<u32>) -> Vec<(u32, String)> {
        self.read(file).around(lines)
    }

    /// Whether a file has changed since the program was built, so that its lines may differ.
    pub(super) fn is_edited(&self, file: &str) -> bool {
        let modified = fs::metadata(self.root.join(file)).and_then(|data| data.modified());
        modified.is_ok_and(|modified| self.built.is_some_and(|built| modified > built))
    }

    /// Returns the text of a file, which is empty if it cannot be read.
    pub(super) fn read(&self, file: &str) -> SourceText {
        let path = self.root.join(file);
        let is_own = self.built.is_some();
        // Reading a device or a pipe might never end.
        let is_safe = path.is_file() && (is_own || is_source_below(&self.root, file, &path));
        let text = is_safe.then(|| fs::read(path).ok()).flatten();
        SourceText::new(text.unwrap_or_default())
    }
}

/// The text of a source file.
#[derive(Debug, Default)]
pub(super) struct SourceText {
    text: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl SourceText {
    fn new(text: Vec<u8>) -> Self {
        let (mut rest, mut ends) = (text.as_slice(), Vec::new());
        while let Ok(1..) = rest.skip_until(b'\n') {
            ends.push(text.len() - rest.len());
        }
        Self { text, ends }
    }

    /// Returns these lines of the text, as described at [`Sources::lines`].
    fn lines(&self, numbers: RangeInclusive<u32>) -> Vec<String> {
        let before = numbers.start().saturating_sub(1) as usize;
        let starts = std::iter::once(&0).chain(&self.ends).skip(before);
        let lines = starts.zip(self.ends.iter().skip(before));
        let lines = lines.take(numbers.count());
        let bytes = lines.map(|(start, end)| &self.text[*start..*end]);
        let text = |line| String::from_utf8_lossy(line).trim_end().to_owned();
        bytes.map(text).collect()
    }

    /// Returns these lines and some lines around them, as described at [`Sources::around`].
    pub(super) fn around(&self, lines: RangeInclusive<u32>) -> Vec<(u32, String)> {
        let (first, last) = lines.into_inner();
        let last = last.clamp(first, first.saturating_add(LONGEST));
        let begin = first.saturating_sub(FARTHEST).max(1);
        let all = self.lines(begin..=last.saturating_add(FARTHEST));
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
        let (path, root) = (fs::canonicalize(path), fs::canonicalize(root));
        path.is_ok_and(|path| root.is_ok_and(|root| path.starts_with(root)))
    };
    let is_small = || path.metadata().is_ok_and(|data| data.len() <= LARGEST);
    is_relative && is_source && is_inside() && is_small()
}

#[cfg(test)]
mod tests;
