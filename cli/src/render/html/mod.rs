//! One page that needs nothing else: no network, no other file.
//!
//! The template escapes everything; names are made fit to print before that. Style and script are
//! named by their hashes in the page's policy, so that no other can run in it. The page works without
//! its script, which adds filters, the search, links into the page, the choice of theme and what is
//! behind the first entries of a long list.

mod checks;
mod plot;
mod rest;
mod sources;

use std::path::Path;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gpu_leak_check::report::model::{CheckStatus, Figure, FindingKind, Limit};
use gpu_leak_check::report::{escape, held_by, what};
use gpu_leak_check::units::{count, size};
use sha2::{Digest, Sha256};

use self::checks::Test;
use self::rest::{Long, unwritten};
use self::sources::{Line, Sources};
use super::{callers, position};
use crate::exit::Outcome;
use crate::names;
use crate::overview::{Group, Overview, figure_name};
use crate::run::Run;

/// How many tests are named of one finding.
const NAMED: usize = 50;
const STYLE: &str = include_str!("../../../templates/report.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page<'run> {
    policy: String,
    style: &'static str,
    script: &'static str,
    version: &'static str,
    counts: String,
    class: &'static str,
    summary: Vec<String>,
    problems: Vec<String>,
    aborted: Vec<String>,
    statuses: Vec<Filter>,
    findings: Long<Entry>,
    tests: Long<Test>,
    /// What the two lists leave out, as data.
    rest: Option<String>,
    peaks: Vec<Row<'run>>,
}

/// A button that hides or shows what has a status, or is of a kind of that name.
#[derive(Debug)]
struct Filter {
    status: &'static str,
    class: &'static str,
    findings: usize,
    tests: usize,
}

#[derive(Debug)]
struct Entry {
    status: &'static str,
    class: &'static str,
    what: String,
    at: String,
    place: String,
    tests: String,
    details: Vec<(&'static str, String)>,
    excerpt: Vec<Line>,
    stack: String,
}

#[derive(Debug)]
struct Row<'run> {
    place: String,
    layer: String,
    figure: &'run str,
    peak: String,
    test: String,
}

/// The page, with source lines from below `root`.
pub(super) fn render(run: &Run, overview: &Overview<'_>, root: &Path) -> Outcome<String> {
    // The tests that the summary's text names stand below.
    let summary = overview.summary.remarks();
    let counts = match overview.summary.is_empty() {
        true => "no check ran".to_owned(),
        false => overview.summary.counts(),
    };
    let mut sources = Sources::below(root);
    let tests = checks::tests(run, &overview.groups);
    let statuses = filters(overview, &tests);
    let entries = overview.groups.iter();
    let entries = entries.map(|group| entry(group, &mut sources)).collect();
    let (findings, tests) = (Long::of(entries, "finding"), Long::of(tests, "test"));
    let rest = rest::block(&findings, &tests)?;
    let page = Page {
        policy: format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
            hash(STYLE),
            hash(SCRIPT)
        ),
        style: STYLE,
        script: SCRIPT,
        version: env!("CARGO_PKG_VERSION"),
        class: match () {
            () if overview.has_findings() => "bad",
            () if overview.finished == 0 || !overview.problems.is_empty() => "told",
            () => "good",
        },
        counts,
        summary,
        problems: overview
            .problems
            .iter()
            .map(|it| escape::sentence(it))
            .collect(),
        aborted: overview
            .aborted
            .iter()
            .map(|test| escape::name(test))
            .collect(),
        statuses,
        findings,
        tests,
        rest,
        peaks: overview
            .peaks
            .iter()
            .map(|peak| Row {
                place: escape::name(&peak.place),
                layer: escape::name(peak.layer),
                figure: figure_name(peak.figure),
                peak: match peak.figure {
                    Figure::Handles => count(peak.peak),
                    Figure::Allocated | Figure::Reserved => size(peak.peak),
                },
                test: escape::name(peak.test),
            })
            .collect(),
    };
    page.render().map_err(unwritten)
}

/// As a policy names what may stand in the page.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// The kinds of findings and the statuses of tests, worst first. A kind stands for the status of a
/// test whose worst finding it is.
fn filters(overview: &Overview<'_>, tests: &[Test]) -> Vec<Filter> {
    let kinds = overview.groups.iter().map(|group| group.finding.kind);
    let found: Vec<_> = kinds.map(CheckStatus::Found).collect();
    let mut statuses = found.clone();
    statuses.extend(tests.iter().map(|test| test.is));
    statuses.sort_unstable();
    statuses.dedup();
    let filter = |status: CheckStatus| Filter {
        status: status.name(),
        class: class(status),
        findings: found.iter().filter(|it| **it == status).count(),
        tests: tests.iter().filter(|test| test.is == status).count(),
    };
    statuses.into_iter().map(filter).collect()
}

fn class(status: CheckStatus) -> &'static str {
    match status {
        CheckStatus::Found(FindingKind::Allowed) | CheckStatus::Clean => "good",
        status if status.is_failure() => "bad",
        _ => "told",
    }
}

fn entry(group: &Group<'_>, sources: &mut Sources) -> Entry {
    let finding = &group.finding;
    let site = finding
        .failed
        .as_ref()
        .map_or(&finding.site, |failed| &failed.site);
    let frames: Vec<_> = site.frames.iter().map(|frame| frame.shown()).collect();
    let excerpt = match position(finding) {
        Some((file, Some(line), _)) => sources.excerpt(file, line),
        _ => Vec::new(),
    };
    Entry {
        status: finding.kind.name(),
        class: class(CheckStatus::Found(finding.kind)),
        what: what(finding),
        at: site.location(),
        place: escape::name(&finding.place.to_string()),
        tests: names::some_of(&group.tests, NAMED),
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
            "taken",
            format!("{}, given back {back}", count(finding.taken)),
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
        details.push(("taken at", finding.site.location()));
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Overview, render};
    use crate::render::sample;

    #[test]
    fn a_page_shows_the_source_line_between_its_neighbours() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("src")).expect("a folder");
        let lines: Vec<_> = (1..=100).map(|at| format!("line<{at}>")).collect();
        fs::write(root.path().join("src/optim.rs"), lines.join("\n")).expect("a file");
        let run = sample::mixed();
        let page = render(&run, &Overview::of(&run), root.path()).expect("a page");
        assert!(page.contains("<mark>88  line&#60;88&#62;</mark>"), "{page}");
        assert!(page.contains("86  line&#60;86&#62;") && page.contains("90  line&#60;90&#62;"));
        assert!(!page.contains("line&#60;91&#62;"), "{page}");
        let callers = "<dt>called by</dt><dd>train::epoch (src/train.rs:61)</dd>";
        assert!(page.contains(callers), "{page}");
    }

    #[test]
    fn nothing_in_a_name_is_markup_or_leaves_the_page() {
        let run = sample::hostile();
        let page = render(&run, &Overview::of(&run), "/nowhere".as_ref()).expect("a page");
        assert_eq!(page.matches("<script>").count(), 1, "the page's own");
        assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
        assert!(!page.contains("http://") && !page.contains("https://"));
        assert!(!page.contains("unsafe-inline"), "its own are named by hash");
    }
}
