//! What of a long list the page's markup leaves out.
//!
//! A browser takes seconds to lay out ten thousand findings, of which nobody sees more than a
//! screen. The first of a list are markup, there without the page's script as well. The others are a
//! block of data: each distinct line of their markup once, and an entry as the numbers of its lines.
//! The same template has written both, so the script only puts lines together.

use std::collections::HashMap;

use askama::Template;
use gpu_leak_check::units::count;
use serde::Serialize;

use super::Entry;
use super::checks::Test;
use crate::exit::{Failure, Outcome};

/// How many entries of a list are markup. `report.js` lists as many at a time.
const FIRST: usize = 100;

/// A list of the page.
#[derive(Debug)]
pub(super) struct Long<T> {
    all: Vec<T>,
    /// `finding`
    noun: &'static str,
}

impl<T> Long<T> {
    pub(super) fn of(all: Vec<T>, noun: &'static str) -> Self {
        Self { all, noun }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those in the markup.
    pub(super) fn first(&self) -> &[T] {
        &self.all[..FIRST.min(self.all.len())]
    }

    /// The others, numbered as the page numbers them.
    fn rest(&self) -> impl Iterator<Item = (usize, &T)> {
        let numbered = self.all.iter().enumerate();
        numbered.map(|(at, entry)| (at + 1, entry)).skip(FIRST)
    }

    /// What stands under the list where the script does not run.
    pub(super) fn rest_told(&self) -> Option<String> {
        (self.all.len() > FIRST).then(|| {
            format!(
                "The first {FIRST} of {} {}s. The others are shown by this page's script, which does not \
                 run here.",
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
    finding: &'page Entry,
}

#[derive(Debug, Template)]
#[template(path = "test.html")]
struct OneTest<'page> {
    number: usize,
    test: &'page Test,
}

/// The block of data.
#[derive(Debug, Default, Serialize)]
struct Block {
    lines: Vec<String>,
    /// An entry's status, or kind, and its lines, all as places in `lines`.
    findings: Vec<Vec<usize>>,
    tests: Vec<Vec<usize>>,
}

/// The block of what the lists leave out, fit for a `script` element; none if that is nothing.
pub(super) fn block(findings: &Long<Entry>, tests: &Long<Test>) -> Outcome<Option<String>> {
    let mut known = HashMap::new();
    let mut block = Block::default();
    let mut lines_of = |status: &str, markup: &str, lines: &mut Vec<String>| -> Vec<usize> {
        let texts = [status].into_iter().chain(markup.trim_end().split('\n'));
        let number = |text: &str| match known.get(text) {
            Some(number) => *number,
            None => {
                known.insert(text.to_owned(), lines.len());
                lines.push(text.to_owned());
                lines.len() - 1
            }
        };
        texts.map(number).collect()
    };
    for (number, finding) in findings.rest() {
        let markup = OneFinding { number, finding }.render().map_err(unwritten)?;
        let lines = lines_of(finding.status, &markup, &mut block.lines);
        block.findings.push(lines);
    }
    for (number, test) in tests.rest() {
        let markup = OneTest { number, test }.render().map_err(unwritten)?;
        let lines = lines_of(test.status, &markup, &mut block.lines);
        block.tests.push(lines);
    }
    if block.lines.is_empty() {
        return Ok(None);
    }
    let json = serde_json::to_string(&block).map_err(unwritten)?;
    // Nothing in it ends the element, or begins what would hide its end.
    Ok(Some(json.replace("</", "<\\/").replace("<!", "\\u003c!")))
}

/// Why there is no page.
pub(super) fn unwritten(why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("the page cannot be written: {why}"))
}
