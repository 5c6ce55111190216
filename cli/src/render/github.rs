//! Annotations of GitHub's workflows: [workflow commands][1] on the standard output.
//!
//! GitHub shows [10 errors and 10 warnings a step][2]; the rest is counted in a line of the log.
//!
//! [1]: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
//! [2]: https://docs.github.com/en/rest/checks/runs

use std::fmt::Write;

use gpu_leak_check::report::model::Outcome;
use gpu_leak_check::report::{escape, what};
use gpu_leak_check::units::quantity;

use super::{kind, position};
use crate::names;
use crate::overview::{Group, Overview};

/// So many of a level are shown in a step.
const MOST: usize = 10;
/// How many tests are named of one finding.
const NAMED: usize = 5;

pub(super) fn render(overview: &Overview<'_>) -> String {
    let of = |outcome: Outcome| {
        let groups = overview.groups.iter();
        groups.filter(move |group| group.outcome == outcome)
    };
    let errors = of(Outcome::Fail).map(|group| annotation("error", group));
    let mut errors: Vec<String> = errors.collect();
    errors.extend(overview.aborted.iter().map(|test| {
        let text = format!("{}: the process ended inside the test", escape::name(test));
        format!(
            "::error title={}::{}",
            property("gpu leak check: aborted"),
            message(&text)
        )
    }));
    let warnings = of(Outcome::Warn).map(|group| annotation("warning", group));
    let mut warnings: Vec<String> = warnings.collect();
    if let Some(first) = overview.unmeasured.first() {
        let reason = first
            .reason
            .as_ref()
            .map_or("the reason is unknown", |reason| &reason.what);
        let text = format!(
            "{} not measured: {}",
            quantity(overview.unmeasured.len() as u64, "check"),
            escape::sentence(reason)
        );
        warnings.push(format!(
            "::warning title={}::{}",
            property("gpu leak check"),
            message(&text)
        ));
    }
    let mut out = String::new();
    for (level, lines) in [("error", errors), ("warning", warnings)] {
        for line in lines.iter().take(MOST) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        }
        if let more @ 1.. = lines.len().saturating_sub(MOST) {
            let more = quantity(more as u64, &format!("more {level}"));
            let _ = writeln!(out, "gpu-leak-check: {more} than GitHub shows of one step");
        }
    }
    out
}

fn annotation(level: &str, group: &Group<'_>) -> String {
    let finding = &group.finding;
    let mut properties = Vec::new();
    if let Some((file, line, column)) = position(finding) {
        properties.push(format!("file={}", property(file)));
        properties.extend(line.map(|line| format!("line={line}")));
        properties.extend(column.map(|column| format!("col={column}")));
    }
    let title = format!("gpu leak check: {}", kind(group));
    properties.push(format!("title={}", property(&title)));
    let text = format!(
        "{}, in {}",
        what(finding),
        names::some_of(&group.tests, NAMED)
    );
    format!("::{level} {}::{}", properties.join(","), message(&text))
}

/// A message: what would end it is encoded.
fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property: what would begin the next one is encoded too.
fn property(text: &str) -> String {
    message(&escape::name(text))
        .replace(':', "%3A")
        .replace(',', "%2C")
}
