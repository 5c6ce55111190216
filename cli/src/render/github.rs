//! Annotations in GitHub's workflows, as [workflow commands][1] on standard output.
//!
//! GitHub shows at most [10 errors and 10 warnings of a step][2]; the others are counted in a line
//! of the log.
//!
//! [1]: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
//! [2]: https://docs.github.com/en/rest/checks/runs

use std::fmt::Write;

use gpu_leak_check::report::check_report::Outcome;
use gpu_leak_check::report::escape;
use gpu_leak_check::units::quantity;

use super::{Settings, kind};
use crate::output::test_names;
use crate::overview::{Group, Overview, outcome};

/// How many annotations of each level GitHub shows for a step.
const MAX_SHOWN: usize = 10;
/// The maximum number of tests that are named for a finding.
const MAX_NAMES: usize = 5;

pub(super) fn render(overview: &Overview<'_>, how: &Settings) -> String {
    let of = |outcome: Outcome| {
        let groups = overview.groups.iter();
        groups.filter(move |group| group.outcome == outcome)
    };
    let errors = of(Outcome::Fail).map(|group| annotation("error", group, how));
    let mut errors: Vec<String> = errors.collect();
    let at = |file: &str, line: u32| match line {
        // A program under `exec` has no line.
        0 => Vec::new(),
        line => position(file, Some(line), None, how),
    };
    errors.extend(overview.aborted.iter().map(|began| {
        let test = escape::name(&began.test);
        let text = format!("{test}: the process ended inside the test");
        let properties = at(&began.file, began.line);
        command("error", &properties, "gpu leak check: aborted", &text)
    }));
    let (failed, skipped): (Vec<_>, Vec<_>) =
        (overview.unmeasured.iter()).partition(|report| outcome(report) == Outcome::Fail);
    errors.extend(overview.unexpected.iter().chain(failed).map(|report| {
        let properties = at(&report.file, report.line);
        let title = format!("gpu leak check: {}", report.status.name());
        let what = report.reason.as_ref().map_or("", |reason| &reason.what);
        let text = format!("{}: {}", escape::name(&report.test), escape::sentence(what));
        command("error", &properties, &title, &text)
    }));
    errors.extend(overview.run.problems.iter().map(|problem| {
        let title = "gpu leak check: the results are incomplete";
        command("error", &[], title, &escape::sentence(problem))
    }));
    let warnings = of(Outcome::Warn).map(|group| annotation("warning", group, how));
    let mut warnings: Vec<String> = warnings.collect();
    if let Some(first) = skipped.first() {
        let reason = first
            .reason
            .as_ref()
            .map_or("the reason is unknown", |reason| &reason.what);
        let text = format!(
            "{} not measured: {}",
            quantity(skipped.len() as u64, "check"),
            escape::sentence(reason)
        );
        warnings.push(command("warning", &[], "gpu leak check", &text));
    }
    let mut out = String::new();
    for (level, lines) in [("error", errors), ("warning", warnings)] {
        for line in lines.iter().take(MAX_SHOWN) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        }
        if let more @ 1.. = lines.len().saturating_sub(MAX_SHOWN) {
            let more = quantity(more as u64, &format!("more {level}"));
            let _ = writeln!(
                out,
                "gpu-leak-check: {more} left out: GitHub shows at most {MAX_SHOWN} per step"
            );
        }
    }
    out
}

fn annotation(level: &str, group: &Group<'_>, how: &Settings) -> String {
    let finding = &group.finding;
    let properties = finding.shown_frames().and_then(|(frame, _)| {
        let file = frame.file.as_deref()?;
        Some(position(file, frame.line, frame.column, how))
    });
    let title = format!("gpu leak check: {}", kind(group));
    let tests = test_names(&group.tests, MAX_NAMES);
    let text = format!("{}, in {tests}", finding.what());
    command(level, &properties.unwrap_or_default(), &title, &text)
}

/// Returns the properties for a position in a source file.
fn position(file: &str, line: Option<u32>, column: Option<u32>, how: &Settings) -> Vec<String> {
    let path = encoded(&escape::sentence(&how.in_repository(file)));
    let mut properties = vec![format!("file={path}")];
    properties.extend(line.map(|line| format!("line={line}")));
    properties.extend(column.map(|column| format!("col={column}")));
    properties
}

fn command(level: &str, position: &[String], title: &str, text: &str) -> String {
    let title = format!("title={}", property(title));
    let properties = [position, &[title]].concat().join(",");
    format!("::{level} {properties}::{}", message(text))
}

/// Encodes the characters that would end a message.
fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    encoded(&escape::name(text))
}

/// Encodes a property. The characters that would begin the next property are encoded as well.
fn encoded(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
