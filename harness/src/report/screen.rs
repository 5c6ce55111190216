//! The text of a report, from which lines are left out if the rest then fits on a screen.

use std::fmt::{self, Write};

use anstyle::Style;

/// The number of columns of the usual terminal.
const COLUMNS: usize = 80;
/// The number of rows of the usual terminal.
const ROWS: usize = 24;
/// The largest distance at which a source line is more useful than the advice about leaks that are
/// meant to stay.
const NEAR: u32 = 3;

/// A text, and further lines that belong between its lines but may be left out.
#[derive(Debug, Default)]
pub(super) struct Screen {
    text: String,
    lines: Vec<OptionalLine>,
    passages: u32,
}

/// A line that may be left out, unless it is the most important one of its passage.
#[derive(Debug)]
struct OptionalLine {
    /// The offset in the text, in bytes, at which the line belongs.
    at: usize,
    /// The distance from the most important line; the farthest lines are left out first.
    distance: u32,
    /// The number of the passage and of the line, and their style; `None` for advice.
    source: Option<(u32, u32, Style)>,
    text: String,
}

impl Write for Screen {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.write_str(text)
    }
}

impl Screen {
    /// Begins a passage of source lines.
    pub(super) fn begin_passage(&mut self) {
        self.passages += 1;
    }

    /// Writes a source line with its number, which is shown in this style. `distance` is the line's
    /// distance from the most important line of its passage.
    pub(super) fn write_source(&mut self, number: u32, style: Style, distance: u32, text: String) {
        self.lines.push(OptionalLine {
            at: self.text.len(),
            distance,
            source: Some((self.passages, number, style)),
            text,
        });
    }

    /// Writes advice for a leak that is meant to stay.
    pub(super) fn write_advice(&mut self, text: String) {
        self.lines.push(OptionalLine {
            at: self.text.len(),
            distance: NEAR + 1,
            source: None,
            text,
        });
    }

    /// Returns the whole text.
    pub(super) fn whole(self) -> String {
        self.with(self.lines.iter())
    }

    /// Leaves out as many lines as is necessary for the text to fit on a screen below the text
    /// `above`. If it cannot fit, returns the whole text, because the user must scroll anyway.
    pub(super) fn fitted(self, above: &str) -> String {
        let mut kept: Vec<_> = self.lines.iter().enumerate().collect();
        kept.sort_by_key(|(at, line)| (line.distance, *at));
        let of_lines: usize = self.lines.iter().map(OptionalLine::rows).sum();
        let mut needed = rows(above) + rows(&self.text) + of_lines;
        while needed > ROWS
            && let Some((_, line)) = kept.pop_if(|(_, line)| line.distance != 0)
        {
            needed -= line.rows();
        }
        if needed > ROWS {
            return self.whole();
        }
        kept.sort_by_key(|(at, _)| *at);
        self.with(kept.into_iter().map(|(_, line)| line))
    }

    /// Returns the text with these lines. An ellipsis before a number stands for source lines that
    /// are left out before that line.
    fn with<'a>(&'a self, lines: impl Iterator<Item = &'a OptionalLine>) -> String {
        let mut text = String::with_capacity(self.text.len() * 2);
        let (mut from, mut before) = (0, None);
        for line in lines {
            text.push_str(&self.text[from..line.at]);
            from = line.at;
            if let Some((passage, number, style)) = line.source {
                let is_gap = before.is_some_and(|(of, last)| of == passage && last + 1 < number);
                let gap = if is_gap { '…' } else { ' ' };
                text += &format!("{style}{gap}{number:>4} |{style:#} ");
                before = Some((passage, number));
            }
            text += &line.text;
            text.push('\n');
        }
        text + &self.text[from..]
    }
}

impl OptionalLine {
    /// Returns the number of rows that the line takes on the screen.
    fn rows(&self) -> usize {
        let number = if self.source.is_some() {
            "12345 | "
        } else {
            ""
        };
        (number.len() + width(&self.text)).div_ceil(COLUMNS)
    }
}

/// Returns the number of rows that a text takes on the screen.
fn rows(text: &str) -> usize {
    text.lines()
        .map(|line| width(line).div_ceil(COLUMNS).max(1))
        .sum()
}

/// Returns the number of columns that a line takes on the screen, where escape codes take none.
fn width(line: &str) -> usize {
    let parts = line.split('\x1b').enumerate();
    let parts = parts.map(|(at, part)| match at {
        0 => part,
        _ => part.split_once('m').map_or(part, |(_, rest)| rest),
    });
    parts.map(|part| part.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use anstyle::Style;

    use super::{COLUMNS, NEAR, ROWS, Screen, rows};

    /// Returns a screen with this many other lines, and a passage of lines with these distances
    /// from its line 100.
    fn screen(others: usize, distances: &[u32]) -> Screen {
        let mut screen = Screen::default();
        screen.begin_passage();
        for distance in distances {
            let text = format!("is {distance} away");
            screen.write_source(100 + distance, Style::new(), *distance, text);
        }
        screen.write_str(&"another line\n".repeat(others)).unwrap();
        screen
    }

    /// Returns the source lines of a text: `…` for a gap, and the distance.
    fn sources(text: &str) -> Vec<String> {
        let lines = text.lines().filter_map(|line| {
            let (number, distance) = line.split_once(" | is ")?;
            let (gap, _) = number.split_once('1')?;
            Some(format!(
                "{}{}",
                gap.trim(),
                distance.trim_end_matches(" away")
            ))
        });
        lines.collect()
    }

    #[test]
    fn the_farthest_lines_are_left_out_until_the_rest_fits() {
        let text = screen(ROWS - 3, &[0, 1, 2, 3]).fitted("");
        assert_eq!(sources(&text), ["0", "1", "2"]);
        assert_eq!(rows(&text), ROWS);
        let text = screen(ROWS - 3, &[0, 1, 2, 3]).fitted("one row above");
        assert_eq!(sources(&text), ["0", "1"]);
    }

    #[test]
    fn all_lines_are_shown_if_they_fit_or_if_nothing_can_make_them_fit() {
        for others in [ROWS - 4, ROWS] {
            let text = screen(others, &[0, 1, 2, 3]).fitted("");
            assert_eq!(sources(&text), ["0", "1", "2", "3"]);
        }
    }

    #[test]
    fn the_number_of_a_line_after_a_gap_is_marked() {
        let text = screen(1, &[0, 2, 3, 5]).whole();
        assert_eq!(sources(&text), ["0", "…2", "3", "…5"]);
        let mut screen = screen(1, &[0]);
        screen.begin_passage();
        screen.write_source(105, Style::new(), 0, "is 0 away".to_owned());
        assert_eq!(sources(&screen.whole()), ["0", "0"]);
    }

    #[test]
    fn advice_is_less_useful_than_a_near_line_and_more_than_a_far_one() {
        let with_advice = |others| {
            let mut screen = screen(others, &[0, NEAR, NEAR + 2]);
            screen.write_advice("advice".to_owned());
            screen.fitted("")
        };
        let far = with_advice(ROWS - 3);
        assert!(far.ends_with("advice\n"), "{far}");
        assert_eq!(sources(&far), ["0", "…3"]);
        let near = with_advice(ROWS - 2);
        assert!(!near.contains("advice"), "{near}");
        assert_eq!(sources(&near), ["0", "…3"]);
    }

    #[test]
    fn long_lines_take_several_rows_and_escape_codes_take_none() {
        let full = "x".repeat(COLUMNS);
        assert_eq!(rows(&full), 1);
        assert_eq!(rows(&format!("{full}x\n\n")), 3);
        assert_eq!(rows(&format!("\x1b[1m\x1b[31m{full}\x1b[0m")), 1);
    }
}
