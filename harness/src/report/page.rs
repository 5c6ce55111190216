//! The text of a report, from which source lines are left out if the rest then fits on a screen.

use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::ops::Range;

/// The number of columns of the usual terminal.
pub(super) const COLUMNS: usize = 80;
/// The number of rows of the usual terminal.
const ROWS: usize = 24;

/// A text of which some lines may be left out.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    /// The lines that may be left out, each with its distance from the line that it explains.
    optional: Vec<(u32, Range<usize>)>,
}

impl Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

impl Page {
    /// Writes a line that may be left out. It is this far from the line that it explains.
    pub(super) fn write_optional(
        &mut self,
        distance: u32,
        line: fmt::Arguments<'_>,
    ) -> fmt::Result {
        let start = self.text.len();
        writeln!(self, "{line}")?;
        self.optional.push((distance, start..self.text.len()));
        Ok(())
    }

    /// Returns the whole text.
    pub(super) fn whole(self) -> String {
        self.text
    }

    /// Returns the text without so many of its optional lines that it fits on a screen below the
    /// text `above`; the farthest lines are left out first. If that is not enough, returns the
    /// whole text, because the user must scroll anyway.
    pub(super) fn fitted(mut self, above: &str) -> String {
        let mut excess = (rows(above) + rows(&self.text)).saturating_sub(ROWS);
        self.optional
            .sort_by_key(|(distance, line)| (Reverse(*distance), Reverse(line.start)));
        let mut left_out = Vec::new();
        for (_, line) in self.optional {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(rows(&self.text[line.clone()]));
            left_out.push(line);
        }
        if excess == 0 {
            left_out.sort_by_key(|line| Reverse(line.start));
            for line in left_out {
                self.text.replace_range(line, "");
            }
        }
        self.text
    }
}

/// Returns the number of rows that a text takes on the screen. Escape codes take no room.
fn rows(text: &str) -> usize {
    let width = |line: &str| {
        let parts = line.split('\x1b').enumerate();
        let parts = parts.map(|(at, part)| match at {
            0 => part,
            _ => part.split_once('m').map_or(part, |(_, rest)| rest),
        });
        parts.map(|part| part.chars().count()).sum::<usize>()
    };
    text.lines()
        .map(|line| width(line).div_ceil(COLUMNS).max(1))
        .sum()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::{COLUMNS, Page, ROWS, rows};

    /// Returns a page with this many lines that must be shown, and one optional line for each
    /// distance.
    fn page(lines: usize, distances: &[u32]) -> Page {
        let mut page = Page::default();
        for distance in distances {
            let line = format_args!("optional {distance}");
            page.write_optional(*distance, line).unwrap();
        }
        page.write_str(&"a line\n".repeat(lines)).unwrap();
        page
    }

    fn optional(text: &str) -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix("optional "))
            .collect()
    }

    #[test]
    fn the_farthest_lines_are_left_out_until_the_rest_fits() {
        let text = page(ROWS - 3, &[2, 1, 3, 2, 1]).fitted("");
        assert_eq!(optional(&text), ["2", "1", "1"]);
        assert_eq!(rows(&text), ROWS);
        let text = page(ROWS - 3, &[2, 1, 3, 2, 1]).fitted("one row above");
        assert_eq!(optional(&text), ["1", "1"]);
    }

    #[test]
    fn all_lines_are_shown_if_they_fit_or_if_nothing_can_make_them_fit() {
        let text = page(ROWS - 3, &[1, 2, 3]).fitted("");
        assert_eq!(optional(&text), ["1", "2", "3"]);
        let text = page(ROWS + 1, &[1, 2, 3]).fitted("");
        assert_eq!(optional(&text), ["1", "2", "3"]);
    }

    #[test]
    fn long_lines_take_several_rows_and_escape_codes_take_none() {
        let full = "x".repeat(COLUMNS);
        assert_eq!(rows(&full), 1);
        assert_eq!(rows(&format!("{full}x\n\n")), 3);
        assert_eq!(rows(&format!("\x1b[1m\x1b[31m{full}\x1b[0m")), 1);
    }
}
