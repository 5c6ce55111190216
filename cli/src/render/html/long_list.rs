//! Lists that may be too long for the page's markup.
//!
//! A browser takes seconds to lay out ten thousand findings, most of which nobody looks at. The
//! first entries of a list are markup, which is shown even without the page's script. The rest is a
//! block of data: each distinct line of its markup once, and for each entry the numbers of its
//! lines. Both parts of a list come from the same template, so the script only has to join lines.

use std::collections::HashMap;

use askama::Template;
use gpu_leak_check::units::count;
use serde::Serialize;

use super::checks::Test;
use super::findings::FindingEntry;
use crate::exit::{ExitResult, Failure};

/// How many entries of a list are markup. `report.js` adds the same number at a time.
const IN_MARKUP: usize = 100;

/// A list on the page.
#[derive(Debug)]
pub(super) struct LongList<T> {
    all: Vec<T>,
    /// The noun for the entries, such as `finding`.
    noun: &'static str,
}

impl<T> LongList<T> {
    pub(super) fn of(all: Vec<T>, noun: &'static str) -> Self {
        Self { all, noun }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the entries in the markup.
    pub(super) fn first(&self) -> &[T] {
        &self.all[..IN_MARKUP.min(self.all.len())]
    }

    /// Returns the other entries with their numbers on the page.
    fn rest(&self) -> impl Iterator<Item = (usize, &T)> {
        let numbered = self.all.iter().enumerate();
        numbered.map(|(at, entry)| (at + 1, entry)).skip(IN_MARKUP)
    }

    /// Returns the sentence under the list if the script does not run.
    pub(super) fn rest_note(&self) -> Option<String> {
        (self.all.len() > IN_MARKUP).then(|| {
            format!(
                "Showing the first {IN_MARKUP} of {} {}s. Enable JavaScript to see the rest.",
                count(self.all.len() as u64),
                self.noun
            )
        })
    }
}

#[derive(Debug, Template)]
#[template(path = "finding.html")]
struct OneFinding<'page> {
    number: usize,
    finding: &'page FindingEntry,
}

#[derive(Debug, Template)]
#[template(path = "test.html")]
struct OneTest<'page> {
    number: usize,
    test: &'page Test,
}

/// The block of data: the entries of both lists that are not in the markup.
#[derive(Debug, Default, Serialize)]
struct RestOfLists {
    lines: Vec<String>,
    /// The status or kind of an entry and its lines, all as indices into `lines`.
    findings: Vec<Vec<usize>>,
    tests: Vec<Vec<usize>>,
}

/// Returns the rest of both lists as the content of a `script` element, or `None` if everything is
/// markup.
pub(super) fn rest(
    findings: &LongList<FindingEntry>,
    tests: &LongList<Test>,
) -> ExitResult<Option<String>> {
    let mut numbers = HashMap::new();
    let mut rest = RestOfLists::default();
    let mut lines_of = |status: &str, markup: &str, lines: &mut Vec<String>| -> Vec<usize> {
        let texts = [status].into_iter().chain(markup.trim_end().split('\n'));
        let number = |text: &str| match numbers.get(text) {
            Some(number) => *number,
            None => {
                numbers.insert(text.to_owned(), lines.len());
                lines.push(text.to_owned());
                lines.len() - 1
            }
        };
        texts.map(number).collect()
    };
    for (number, finding) in findings.rest() {
        let markup = OneFinding { number, finding }
            .render()
            .map_err(not_written)?;
        let lines = lines_of(finding.status, &markup, &mut rest.lines);
        rest.findings.push(lines);
    }
    for (number, test) in tests.rest() {
        let markup = OneTest { number, test }.render().map_err(not_written)?;
        let lines = lines_of(test.status, &markup, &mut rest.lines);
        rest.tests.push(lines);
    }
    if rest.lines.is_empty() {
        return Ok(None);
    }
    let json = serde_json::to_string(&rest).map_err(not_written)?;
    // Ensures that nothing in the data ends the element, or begins a comment that would hide its
    // end.
    Ok(Some(json.replace("</", "<\\/").replace("<!", "\\u003c!")))
}

/// Returns the error of a page that cannot be written.
pub(super) fn not_written(why: impl std::fmt::Display) -> Failure {
    Failure::cannot_write("the page", why)
}
