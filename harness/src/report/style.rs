//! How a report is rendered: with which colours, and with which sources.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Effects};

use super::check_report::{CheckStatus, FindingKind};
use super::sources::Sources;

/// How a report is rendered.
#[derive(Clone, Debug)]
pub struct Rendering {
    /// Whether to use colours.
    pub style: Style,
    /// Where source lines are read from.
    pub sources: Sources,
}

impl Rendering {
    /// Returns the rendering for this process's standard error and its own sources.
    pub fn for_stderr() -> Self {
        Self {
            style: Style::for_stderr(),
            sources: Sources::of_this_process(),
        }
    }
}

/// Whether to colour the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// No escape codes.
    pub const PLAIN: Self = Self { colour: false };
    /// Colours, even if the output is not a terminal.
    pub const COLOURED: Self = Self { colour: true };

    /// Returns the style for this process's standard error. It is coloured if standard error is a
    /// terminal (other than one with `TERM=dumb`) or
    /// [`CLICOLOR_FORCE`](https://bixense.com/clicolors/) is set, but never if
    /// [`NO_COLOR`](https://no-color.org) is set.
    pub fn for_stderr() -> Self {
        Self::chosen(|name| env::var_os(name), std::io::stderr().is_terminal())
    }

    fn chosen(variable: impl Fn(&str) -> Option<OsString>, terminal: bool) -> Self {
        let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let is = |name, expected: &str| variable(name).is_some_and(|value| value == expected);
        let forced = is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0");
        let colour = !is_set("NO_COLOR") && (forced || (terminal && !is("TERM", "dumb")));
        Self { colour }
    }

    /// Returns the style of a check's status. A finding's kind has the style of a check that has
    /// only this finding.
    pub(super) fn status(self, status: CheckStatus) -> anstyle::Style {
        let colour = match status {
            CheckStatus::Clean | CheckStatus::Found(FindingKind::Allowed) => AnsiColor::Green,
            status if status.is_failure() => AnsiColor::Red,
            _ => AnsiColor::Yellow,
        };
        self.on(colour.on_default().effects(Effects::BOLD))
    }

    /// Returns the style of a finding's description, which follows its kind.
    pub(super) fn strong(self) -> anstyle::Style {
        self.on(anstyle::Style::new().effects(Effects::BOLD))
    }

    /// Returns the style of line numbers, arrows and labels.
    pub(super) fn frame(self) -> anstyle::Style {
        self.on(AnsiColor::Blue.on_default().effects(Effects::BOLD))
    }

    /// Returns the style of the marker under a source line, and of figures that have grown.
    pub(super) fn mark(self) -> anstyle::Style {
        self.on(AnsiColor::Red.on_default().effects(Effects::BOLD))
    }

    /// Returns the style of secondary text.
    pub(super) fn dim(self) -> anstyle::Style {
        self.on(anstyle::Style::new().effects(Effects::DIMMED))
    }

    /// Returns the style of `help:` and `again:`.
    pub(super) fn help(self) -> anstyle::Style {
        self.on(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    }

    fn on(self, style: anstyle::Style) -> anstyle::Style {
        if self.colour {
            style
        } else {
            anstyle::Style::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Style;

    fn chosen(set: &[(&str, &str)], terminal: bool) -> Style {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.into())
        };
        Style::chosen(variable, terminal)
    }

    #[test]
    fn colours_are_for_terminals() {
        assert_eq!(chosen(&[], true), Style::COLOURED);
        assert_eq!(chosen(&[], false), Style::PLAIN);
        assert_eq!(chosen(&[("TERM", "dumb")], true), Style::PLAIN);
    }

    #[test]
    fn no_color_beats_everything() {
        assert_eq!(chosen(&[("NO_COLOR", "1")], true), Style::PLAIN);
        assert_eq!(
            chosen(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true),
            Style::PLAIN
        );
        assert_eq!(chosen(&[("NO_COLOR", "")], true), Style::COLOURED);
    }

    #[test]
    fn colours_can_be_forced_into_a_file() {
        assert_eq!(chosen(&[("CLICOLOR_FORCE", "1")], false), Style::COLOURED);
        assert_eq!(chosen(&[("CLICOLOR_FORCE", "0")], false), Style::PLAIN);
    }
}
