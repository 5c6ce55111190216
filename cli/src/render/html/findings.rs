//! The findings of a run, each with its details and an excerpt of the source.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Limit};
use gpu_leak_check::report::{escape, held_by};
use gpu_leak_check::units::{count, size};

use super::super::{callers, position};
use super::sources::{Line, Sources};
use crate::output::test_names;
use crate::overview::Group;

/// How many tests of a finding are named.
const MAX_NAMES: usize = 50;

/// A finding in the list.
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

/// The class of the page's style that a status has.
pub(super) fn class(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Found(FindingKind::Allowed) | CheckStatus::Clean => "good",
        status if status.is_failure() => "bad",
        _ => "note",
    }
}

pub(super) fn entry(group: &Group<'_>, sources: &mut Sources) -> FindingEntry {
    let finding = &group.finding;
    let site = finding.shown_site();
    let frames: Vec<_> = site.frames.iter().map(|frame| frame.shown()).collect();
    let excerpt = match position(finding) {
        Some((file, Some(line), _)) => sources.excerpt(file, line),
        _ => Vec::new(),
    };
    FindingEntry {
        status: finding.kind.name(),
        class: class(CheckStatus::Found(finding.kind)),
        what: finding.what(),
        at: site.location(),
        place: escape::name(&finding.place.to_string()),
        tests: test_names(&group.tests, MAX_NAMES),
        details: details(group),
        excerpt,
        stack: frames.join("\n"),
    }
}

fn details(group: &Group<'_>) -> Vec<(&'static str, String)> {
    let finding = &group.finding;
    let callers = callers(group).map(|callers| ("called by", callers));
    let mut details: Vec<_> = callers.into_iter().collect();
    details.push(("layer", escape::name(&finding.layer.to_string())));
    if finding.bytes > 0 {
        details.push(("bytes", count(finding.bytes)));
    }
    if finding.taken > 0 {
        let back = count(finding.given_back);
        details.push((
            "allocated",
            format!("{}, freed {back}", count(finding.taken)),
        ));
    }
    if let Some(budget) = &finding.budget {
        let amount = match budget.limit {
            Limit::MaxAllocationCount => count,
            _ => size,
        };
        let (allowed, reached) = (amount(budget.allowed), amount(budget.reached));
        let option = budget.limit.option();
        details.push(("limit", format!("{option} = {allowed}, reached {reached}")));
        details.extend(budget.shares.iter().take(10).map(|share| {
            let (count, bytes) = (count(share.count), size(share.bytes));
            (
                "of it",
                format!("{count} × at {}, {bytes}", escape::name(&share.at)),
            )
        }));
    }
    if !finding.rounds.is_empty() {
        let left = finding.rounds.iter().map(|left| match left.bytes {
            0 => count(left.count),
            bytes => size(bytes),
        });
        details.push(("by round", left.collect::<Vec<_>>().join(" → ")));
    }
    if let Some(failed) = &finding.failed {
        details.push((
            "error",
            format!("{} ({})", escape::name(&failed.error), failed.code),
        ));
        details.push(("allocated at", finding.site.location()));
    }
    if let Some(library) = &finding.site.library {
        details.push(("held by", escape::name(&library.name)));
        if let Some(known) = &library.known {
            details.push(("known", escape::sentence(&known.says)));
        }
    }
    if let Some(holders) = held_by(finding) {
        details.push(("held by", holders));
    }
    if let Some(thread) = &finding.foreign_thread {
        details.push(("thread", escape::name(thread)));
    }
    if let Some(allowed_by) = &finding.allowed_by {
        details.push(("note", escape::sentence(&allowed_by.to_string())));
    }
    details.extend(
        finding
            .notes
            .iter()
            .map(|note| ("note", escape::sentence(note))),
    );
    if !finding.site.fingerprint.is_empty() {
        details.push(("fingerprint", escape::name(&finding.site.fingerprint)));
    }
    details
}
