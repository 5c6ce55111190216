//! Shows the source line of a finding in the way the compiler would.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::Arc;

use gpu_leak_core::judge::LINES_AFTER;

use super::check_report::{Frame, Language};
use super::escape::spelled_out;
use super::screen::Screen;
use super::sources::{LONGEST, SourceText};
use super::style::Rendering;

/// The largest number of characters of a line that are shown.
const WIDEST: usize = 100;
/// How many spaces are shown of the indentation that all lines of a passage share.
const INDENTATION: usize = 4;
/// How many characters are kept after the marked range if the beginning of the line is cut off.
const BEHIND_MARK: usize = 20;

/// Lines of a source file, which are written below their location.
pub(super) struct Excerpt<'a> {
    pub(super) arrow: &'static str,
    pub(super) frame: &'a Frame,
    /// The location, and the text about it.
    pub(super) heading: String,
    /// The text below the line of the frame, which follows a marker at the frame's column.
    pub(super) label: Option<String>,
    /// The last line to show; `None` if only the line of the frame is shown.
    pub(super) until: Option<u32>,
    /// Whether the last line is as important as the frame's line.
    pub(super) ends_there: bool,
}

/// What has already been written for a finding.
#[derive(Default)]
pub(super) struct Shown {
    /// The lines, by file and number.
    lines: BTreeSet<(Option<Arc<str>>, u32)>,
    /// The file of the last excerpt. Most findings have excerpts of only one file.
    file: Option<Arc<str>>,
    /// The text of that file.
    text: SourceText,
}

impl Excerpt<'_> {
    /// Writes the lines that are not yet in `shown`.
    pub(super) fn write(
        &self,
        how: &Rendering,
        shown: &mut Shown,
        out: &mut Screen,
    ) -> fmt::Result {
        let (blue, red) = (how.style.frame(), how.style.mark());
        let file = self.frame.file.as_deref().unwrap_or_default();
        let first = self.frame.line.unwrap_or(0);
        let last = self.until.unwrap_or(first);
        let all = first..=last.min(first.saturating_add(LONGEST));
        let key = |line| (self.frame.file.clone(), line);
        let is_shown = |line| shown.lines.contains(&key(line));
        if self.label.is_none() && all.clone().all(is_shown) {
            return Ok(());
        }
        let (arrow, heading) = (self.arrow, &self.heading);
        writeln!(out, "{blue}  {arrow}{blue:#} {heading}")?;
        if shown.file != self.frame.file {
            shown.file.clone_from(&self.frame.file);
            shown.text = how.sources.read(file);
        }
        let mut lines = shown.text.around(all.clone());
        lines.retain(|(at, _)| self.until.is_some() || *at == first);
        if let (Some(label), None) = (&self.label, lines.iter().find(|(at, _)| *at == first)) {
            writeln!(out, "{blue}      |{blue:#} {red}{label}{red:#}")?;
        }
        out.begin_passage();
        let indentation = indentation(&lines);
        for (number, text) in lines {
            let label = self.label.as_ref().filter(|_| number == first);
            // The end of a block, where its variables are dropped, is not informative by itself.
            let is_bare = !text.contains(char::is_alphanumeric);
            if label.is_none() && (!shown.lines.insert(key(number)) || is_bare) {
                continue;
            }
            let column = self.frame.column.filter(|_| label.is_some());
            let column = column.map(|it| it.saturating_sub(indentation as u32));
            let marked = Marked::new(&text[indentation..], column, self.frame.language);
            let end = if self.ends_there { last } else { first };
            // What comes after a call is more informative than what comes before it.
            let before = first.saturating_sub(number) * LINES_AFTER;
            let after = number.saturating_sub(first).min(number.abs_diff(end));
            let distance = before.max(after);
            out.write_source(number, blue, distance, marked.text);
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
        shown.lines.extend(all.map(key));
        Ok(())
    }
}

/// Returns how many bytes are cut off at the beginning of each of these lines, because all of them
/// are indented.
fn indentation(lines: &[(u32, String)]) -> usize {
    let lines = lines.iter().map(|(_, text)| text.as_str());
    let of = |text: &str| text.bytes().take_while(|byte| *byte == b' ').count();
    lines.map(of).min().unwrap_or(0).saturating_sub(INDENTATION)
}

/// Returns the length in bytes of the path at the beginning of `text`, such as `sys::cuMemAlloc_v2`
/// or, in Python, `torch.empty`. If there is no path, returns the length of the first character.
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

/// A printable line with a marked range, which is given in characters.
#[derive(Debug, PartialEq, Eq)]
struct Marked {
    text: String,
    start: usize,
    length: usize,
}

impl Marked {
    /// Marks the word in `line` that begins at the byte `column`, which is counted from 1 as in
    /// debug information.
    fn new(line: &str, column: Option<u32>, language: Language) -> Self {
        let start = match column {
            Some(column @ 1..) => (column as usize - 1).min(line.len()),
            _ => line.len(),
        };
        let is_boundary = |at: &usize| line.is_char_boundary(*at);
        let start = (0..=start).rev().find(is_boundary).unwrap_or(0);
        let (before, rest) = line.split_at(start);
        let (word, after) = rest.split_at(path_length(rest, language));

        let shown = |part: &str| spelled_out(&part.replace('\t', "    "));
        let (before, word, after) = (shown(before), shown(word), shown(after));
        let length = word.chars().count();
        // At the end of the line, a marker would point at nothing.
        let start = match length {
            0 => 0,
            _ => before.chars().count(),
        };
        Self::cut(before + &word + &after, start, length)
    }

    /// Shortens the line to the width without cutting off the beginning of the marked range.
    fn cut(mut whole: String, mut start: usize, mut length: usize) -> Self {
        if whole.chars().count() > WIDEST {
            let mut text: Vec<char> = whole.chars().collect();
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
            whole = text.into_iter().collect();
        }
        Self {
            text: whole,
            start,
            length,
        }
    }
}

#[cfg(test)]
mod tests;
