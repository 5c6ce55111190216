//! What a run looks like, in each format.

mod csv;
mod flamegraph;
mod folded;
mod github;
mod html;
mod junit;
mod markdown;
mod snapshot;
mod text;

use std::path::PathBuf;

use gpu_leak_check::report::model::{Finding, Outcome as Weight};
use gpu_leak_check::report::what;

use crate::arguments::Format;
use crate::exit::Outcome;
use crate::overview::{Group, Overview};
use crate::run::Run;

/// How wide text is where no terminal shows it.
pub(crate) const WIDTH: usize = 100;
/// Narrower, no line would hold anything.
const NARROWEST: usize = 40;

/// What a rendering needs beside the facts.
#[derive(Debug)]
pub(crate) struct Rendering {
    /// In columns.
    pub(crate) width: usize,
    /// What paths of sources are relative to.
    pub(crate) root: PathBuf,
}

/// That of the terminal on the standard output.
pub(crate) fn width_of_stdout() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    let columns = size.map(|(terminal_size::Width(columns), _)| usize::from(columns));
    columns.unwrap_or(WIDTH).max(NARROWEST)
}

/// The run in one format; text has an end of line.
pub(crate) fn render(
    format: Format,
    run: &Run,
    overview: &Overview<'_>,
    how: &Rendering,
) -> Outcome<Vec<u8>> {
    let text = match format {
        Format::Text => text::render(overview, how.width),
        Format::Junit => junit::render(run, how)?,
        Format::Markdown => markdown::render(overview),
        Format::Github => github::render(overview),
        Format::Csv => csv::render(overview)?,
        Format::Folded => folded::render(run),
        Format::Flamegraph => flamegraph::render(run)?,
        Format::Snapshot => return snapshot::render(run),
        Format::Html => html::render(run, overview, &how.root)?,
    };
    Ok(text.into_bytes())
}

/// Who called the line that is shown: with an allocating function of one's own that line is the same
/// for all findings.
fn callers(group: &Group<'_>) -> Option<String> {
    let finding = &group.finding;
    let failed = finding.failed.as_ref();
    let site = failed.map_or(&finding.site, |failed| &failed.site);
    site.callers(group.tests.first().unwrap_or(&""))
}

/// `text` in lines of `width` columns, the first one `first` columns in, the others `rest`.
pub(crate) fn wrapped(text: &str, first: usize, rest: usize, width: usize) -> Vec<String> {
    let (first, rest) = (" ".repeat(first), " ".repeat(rest));
    let options = textwrap::Options::new(width)
        .initial_indent(&first)
        .subsequent_indent(&rest)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options);
    lines
        .into_iter()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// `leaked: 2 × 512 KiB device memory, stream-ordered`
fn title(group: &Group<'_>) -> String {
    format!("{}: {}", kind(group), what(&group.finding))
}

/// `leaked`; `leaked (only warned)` where the policy lets the tests pass, `leaked (not confirmed)`
/// where no second run could be made.
fn kind(group: &Group<'_>) -> String {
    let finding = &group.finding;
    let name = finding.kind.name();
    if finding.is_unconfirmed() {
        format!("{name} (not confirmed)")
    } else if finding.is_failure() && group.outcome == Weight::Warn {
        format!("{name} (only warned)")
    } else {
        name.to_owned()
    }
}

/// `fail`
const fn outcome_name(outcome: Weight) -> &'static str {
    match outcome {
        Weight::Pass => "pass",
        Weight::Warn => "warn",
        Weight::Fail => "fail",
    }
}

/// The first line of the user's own that led to a finding.
fn position(finding: &Finding) -> Option<(&str, Option<u32>, Option<u32>)> {
    let site = match &finding.failed {
        Some(failed) => &failed.site,
        None => &finding.site,
    };
    let frame = site.user_frame()?;
    Some((frame.file.as_deref()?, frame.line, frame.column))
}

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
