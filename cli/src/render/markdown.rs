//! Markdown as GitHub and GitLab show it: a comment, or a step's summary.

use std::fmt::Write;

use gpu_leak_check::report::model::Finding;
use gpu_leak_check::report::{escape, what};
use gpu_leak_check::units::{count, size};

use super::kind;
use crate::names;
use crate::overview::Overview;

/// The largest summary of a step that GitHub takes is [1 MiB][1]; room is left for the last line.
///
/// [1]: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
const LARGEST: usize = 1024 * 1024 - 1024;
/// How many tests are named of one finding.
const NAMED: usize = 3;

pub(super) fn render(overview: &Overview<'_>) -> String {
    let mut out = String::from("## GPU leak check\n\n");
    let summary = overview.summary.text();
    for line in summary.as_deref().unwrap_or("no check ran").lines() {
        line_of_text(&mut out, line.trim_start());
    }
    for problem in overview.problems {
        line_of_text(&mut out, &escape::sentence(problem));
    }
    if !overview.groups.is_empty() {
        out += "\n| kind | what | bytes | at | tests |\n| --- | --- | ---: | --- | --- |\n";
    }
    for (at, group) in overview.groups.iter().enumerate() {
        let finding = &group.finding;
        let row = format!(
            "| {} | {} | {} | {} | {} |\n",
            literal(&kind(group)),
            literal(&what(finding)),
            size(finding.bytes),
            code(&place(finding)),
            literal(&names::some_of(&group.tests, NAMED)),
        );
        if out.len() + row.len() > LARGEST {
            let more = count((overview.groups.len() - at) as u64);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "\n… and {more} more findings: the size of a summary is limited"
            );
            break;
        }
        out += &row;
    }
    out
}

fn line_of_text(out: &mut String, line: &str) {
    let line = literal(line);
    if out.len() + line.len() < LARGEST {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "- {line}");
    }
}

fn place(finding: &Finding) -> String {
    let site = finding
        .failed
        .as_ref()
        .map_or(&finding.site, |failed| &failed.site);
    site.location()
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", literal(text))
}

/// Text that is shown as it is: whatever Markdown or HTML may see in it is written as a number.
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
