//! The formats of the report, each in its own file. All of them read the same [`Overview`].
//!
//! A format that a CI system reads as the results of tests contains an error for `run.problems`.
//! Otherwise, a run whose results are lost would look like one without failures.
//!
//! Run files are untrusted input. `Finding::what`, `Frame::shown`, `report::details`,
//! `report::headline` and, without colours, `report::text::to_string` return text whose control
//! characters are already escaped. The fields themselves are not escaped: a format passes names of
//! tests, files, functions, layers and libraries, fingerprints, reasons and problems through
//! `report::escape`, and then applies the escaping of its own syntax. People read `escape::name`,
//! `escape::cell` (in tables) and `escape::sentence` (also for commands and paths), which leave out
//! the middle of long text. Programs need `escape::spelled_out`, because two long names may be
//! equal without their middle. A line that begins with such text also passes through
//! `output::marked` or `output::wrapped`, because the output may be printed to the log of a CI
//! system.

mod csv;
mod flamegraph;
mod folded;
mod github;
mod html;
mod junit;
mod markdown;
mod pytorch;
mod text;

use std::path::PathBuf;

use clap::ValueEnum;
use gpu_leak_check::report::check_report::Outcome;

use crate::exit::ExitResult;
use crate::overview::{Group, Overview};
use crate::workspace::without_parents;

/// A format, as it is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// XML as CI systems read it
    Junit,
    /// For a pull request or a GitHub step summary; at most 1 MiB
    Markdown,
    /// GitHub's annotations: at most 10 errors and 10 warnings
    Github,
    /// One row for each finding, merged over the tests that have it
    Csv,
    /// Folded stacks, the input of flame graphs, weighted by bytes
    Folded,
    /// A flame graph for browsers (SVG), weighted by bytes
    Flamegraph,
    /// A pickle for PyTorch's memory viewer; with times if the run is a recording
    Snapshot,
    /// A self-contained page for a browser
    Html,
}

impl Format {
    /// Whether the format is unsuitable for a terminal.
    pub(crate) fn is_binary(self) -> bool {
        self == Self::Snapshot
    }
}

/// What a format depends on in addition to the run.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The width of text, in columns.
    pub(crate) width: usize,
    /// The directory to which source paths are relative.
    pub(crate) root: PathBuf,
    /// The directory of the repository in a GitHub workflow. GitHub shows only lines of files whose
    /// paths are relative to this directory.
    pub(crate) checkout: Option<PathBuf>,
}

impl Settings {
    /// Returns the path of a source file, relative to the repository if the file is in it. The
    /// path is not escaped.
    fn in_repository(&self, file: &str) -> String {
        let absolute = without_parents(&self.root.join(file));
        let checkout = self.checkout.as_deref();
        let inside = checkout.and_then(|checkout| absolute.strip_prefix(checkout).ok()?.to_str());
        inside.unwrap_or(file).to_owned()
    }
}

/// Renders the run in one format. Text ends with a line feed.
pub(crate) fn render(
    format: Format,
    overview: &Overview<'_>,
    how: &Settings,
) -> ExitResult<Vec<u8>> {
    match format {
        Format::Text => Ok(text::render(overview, how).into_bytes()),
        Format::Junit => junit::render(overview, how).map(String::into_bytes),
        Format::Markdown => Ok(markdown::render(overview).into_bytes()),
        Format::Github => Ok(github::render(overview, how).into_bytes()),
        Format::Csv => csv::render(overview),
        Format::Folded => Ok(folded::render(overview.run).into_bytes()),
        Format::Flamegraph => flamegraph::render(overview.run),
        Format::Snapshot => pytorch::render(overview.run),
        Format::Html => html::render(overview, how).map(String::into_bytes),
    }
}

/// Returns the title of a group: `leaked: 2 × 512 KiB device memory, stream-ordered`.
fn title(group: &Group<'_>) -> String {
    format!("{}: {}", kind(group), group.finding.what())
}

/// Returns the kind of a group, such as `leaked`. It is followed by `(only warned)` if the policy
/// lets the tests pass, and by `(not confirmed)` if a further run of the body ended differently.
fn kind(group: &Group<'_>) -> String {
    let finding = &group.finding;
    let name = finding.kind.name();
    if finding.is_unconfirmed() {
        format!("{name} (not confirmed)")
    } else if finding.is_failure() && group.outcome == Outcome::Warn {
        format!("{name} (only warned)")
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
