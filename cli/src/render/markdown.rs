//! Markdown as GitHub and GitLab show it, for a comment or a step summary.

use std::fmt::Write;

use gpu_leak_check::report::escape;
use gpu_leak_check::units::{count, size};

use super::kind;
use crate::output::test_names;
use crate::overview::Overview;

/// GitHub accepts summaries of at most [1 MiB][1]. Some room is left for the last line.
///
/// [1]: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
const MAX_SIZE: usize = 1024 * 1024 - 1024;
/// The maximum number of tests that are named for a finding.
const MAX_NAMES: usize = 3;

pub(super) fn render(overview: &Overview<'_>) -> String {
    let mut out = String::from("## GPU leak check\n\n");
    let summary = overview.summary.text();
    for line in summary.as_deref().unwrap_or("no check ran").lines() {
        add_item(&mut out, line.trim_start());
    }
    for problem in &overview.run.problems {
        add_item(&mut out, &escape::sentence(problem));
    }
    if !overview.groups.is_empty() {
        out += "\n| kind | what | bytes | at | tests |\n| --- | --- | ---: | --- | --- |\n";
    }
    for (at, group) in overview.groups.iter().enumerate() {
        let finding = &group.finding;
        let row = format!(
            "| {} | {} | {} | {} | {} |\n",
            literal(&kind(group)),
            literal(&finding.what()),
            size(finding.bytes),
            code(&finding.location()),
            literal(&test_names(&group.tests, MAX_NAMES)),
        );
        if out.len() + row.len() > MAX_SIZE {
            let more = count((overview.groups.len() - at) as u64);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "\n… and {more} more findings, omitted because GitHub limits the size of a summary"
            );
            break;
        }
        out += &row;
    }
    out
}

/// Adds an item to the list at the beginning of the text.
fn add_item(out: &mut String, line: &str) {
    let line = literal(line);
    if out.len() + line.len() < MAX_SIZE {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "- {line}");
    }
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", literal(text))
}

/// Returns text that is shown unchanged. Characters with a meaning in Markdown or HTML are written
/// as numeric character references.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in escape::sentence(text).chars() {
        if character.is_alphanumeric() || " .,;/-()×…".contains(character) {
            out.push(character);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "&#{};", u32::from(character));
        }
    }
    out
}
