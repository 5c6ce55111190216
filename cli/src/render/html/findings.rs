//! The findings of a run, each with its details and an excerpt of the source.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::report::{Sources, at_its_line, details, escape};
use gpu_leak_check::units::count;

use super::sources::{Line, excerpt, passage};
use crate::output::test_names;
use crate::overview::Group;

/// The maximum number of tests that are named for a finding.
const MAX_NAMES: usize = 50;

#[derive(Debug)]
pub(super) struct FindingEntry {
    pub(super) status: &'static str,
    pub(super) class: &'static str,
    pub(super) what: String,
    pub(super) at: String,
    pub(super) place: String,
    pub(super) tests: String,
    pub(super) details: Vec<(&'static str, String)>,
    pub(super) excerpt: Vec<Line>,
    pub(super) stack: String,
}

/// Returns the CSS class of a status.
pub(super) fn class(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Found(FindingKind::Allowed) | CheckStatus::Clean => "good",
        status if status.is_failure() => "bad",
        _ => "note",
    }
}

pub(super) fn entry(group: &Group<'_>, sources: &Sources) -> FindingEntry {
    let finding = &group.finding;
    let site = finding.shown_site();
    let frames: Vec<_> = site.frames.iter().map(|frame| frame.shown()).collect();
    let line = finding.shown_frames();
    let line = line.and_then(|(frame, _)| Some((frame.file?, frame.line?)));
    let mut excerpt = line.map_or_else(Vec::new, |(file, line)| excerpt(sources, &file, line));
    excerpt.extend(
        finding
            .shown_passages()
            .flat_map(|it| passage(sources, it, &finding.says(it))),
    );
    FindingEntry {
        status: finding.kind.name(),
        class: class(CheckStatus::Found(finding.kind)),
        what: finding.what(),
        at: finding.location(),
        place: escape::name(&finding.place.to_string()),
        tests: test_names(&group.tests, MAX_NAMES),
        details: all_details(group),
        excerpt,
        stack: frames.join("\n"),
    }
}

fn all_details(group: &Group<'_>) -> Vec<(&'static str, String)> {
    let finding = &group.finding;
    let test = group.tests.first().unwrap_or(&"");
    let mut all = vec![
        ("this line", at_its_line(finding)),
        ("layer", escape::name(&finding.layer.to_string())),
    ];
    if finding.bytes > 0 {
        all.push(("bytes", count(finding.bytes)));
    }
    all.extend(details(finding, test));
    if !finding.site.fingerprint.is_empty() {
        all.push(("fingerprint", escape::name(&finding.site.fingerprint)));
    }
    all
}
