//! A self-contained page that needs neither a network nor other files.
//!
//! The template escapes everything; control characters in names are escaped before that. The page's
//! policy contains the hashes of its style and script, so that browsers accept no others. The page
//! works without its script, which adds filters, the search, links to parts of the page, the choice
//! of theme and the rest of long lists.

mod checks;
mod findings;
mod long_list;
mod plot;
mod sources;

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_check::report::{Sources, escape};
use sha2::{Digest, Sha256};

use self::checks::Test;
use self::findings::{FindingEntry, class, entry};
use self::long_list::{LongList, not_written};
use super::Settings;
use crate::exit::ExitResult;
use crate::overview::{Overview, Peak};

const STYLE: &str = include_str!("../../../templates/report.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page {
    policy: String,
    style: &'static str,
    script: &'static str,
    version: &'static str,
    counts: String,
    /// The time of the run, and its commit, machine, device and driver.
    environment: Vec<(&'static str, String)>,
    class: &'static str,
    summary: Vec<String>,
    problems: Vec<String>,
    aborted: Vec<String>,
    statuses: Vec<Filter>,
    findings: LongList<FindingEntry>,
    tests: LongList<Test>,
    /// The rest of both lists, as data for the script.
    rest: Option<String>,
    peaks: Vec<[String; 5]>,
}

/// A button that hides or shows the tests of a status and the findings of a kind.
#[derive(Debug)]
struct Filter {
    status: &'static str,
    class: &'static str,
    findings: usize,
    tests: usize,
}

pub(super) fn render(overview: &Overview<'_>, how: &Settings) -> ExitResult<String> {
    let run = overview.run;
    // These lines do not contain the names of tests, which are listed below.
    let summary = overview.summary.other_lines();
    let counts = match overview.summary.is_empty() {
        true => "no check ran".to_owned(),
        false => overview.summary.counts(),
    };
    let sources = Sources::below(&how.root);
    let tests = checks::tests(run, &overview.groups);
    let statuses = filters(overview, &tests);
    let entries = overview.groups.iter();
    let entries = entries.map(|group| entry(group, &sources)).collect();
    let (findings, tests) = (
        LongList::of(entries, "finding"),
        LongList::of(tests, "test"),
    );
    let rest = long_list::rest(&findings, &tests)?;
    let page = Page {
        policy: format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
            hash(STYLE),
            hash(SCRIPT)
        ),
        style: STYLE,
        script: SCRIPT,
        version: env!("CARGO_PKG_VERSION"),
        class: if overview.has_findings() || overview.fails_without_a_result() {
            "bad"
        } else if !overview.has_measured() || !run.problems.is_empty() {
            "note"
        } else {
            "good"
        },
        counts,
        environment: run.environment(),
        summary,
        problems: run.problems.iter().map(|it| escape::sentence(it)).collect(),
        aborted: overview
            .aborted
            .iter()
            .map(|began| escape::name(&began.test))
            .collect(),
        statuses,
        findings,
        tests,
        rest,
        peaks: overview.peaks.iter().map(Peak::cells).collect(),
    };
    page.render().map_err(not_written)
}

/// Returns the form in which a content security policy names an allowed style or script.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Returns a filter for each kind of finding and each status of a test, worst first. The kind of a
/// test's worst finding and the status of that test have the same name, so they share a filter.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use std::path::PathBuf;

    use gpu_leak_check::report::check_report::{Outcome, Report};

    use super::{CheckStatus, Overview};
    use crate::render::{Settings, sample};
    use crate::run::Run;

    fn render(run: &Run, root: impl Into<PathBuf>) -> String {
        let how = Settings {
            width: 80,
            root: root.into(),
            checkout: None,
        };
        super::render(&Overview::of(run), &how).expect("a page")
    }

    #[test]
    fn a_page_is_not_green_if_a_check_failed_because_it_has_no_result() {
        let blind = |outcome| Report {
            outcome: Some(outcome),
            ..sample::report("reads", CheckStatus::NotMeasured)
        };
        let page = |outcome| {
            let clean = sample::report("frees", CheckStatus::Clean);
            render(&sample::run(vec![clean, blind(outcome)]), "/nowhere")
        };
        for (outcome, class) in [(Outcome::Pass, "good"), (Outcome::Fail, "bad")] {
            let page = page(outcome);
            let summary = format!("<section class=\"summary {class}\"");
            assert!(page.contains(&summary), "{class}: {page}");
        }
    }

    #[test]
    fn a_page_shows_the_source_line_between_its_neighbours() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("src")).expect("a directory");
        let lines: Vec<_> = (1..=100).map(|at| format!("line<{at}>")).collect();
        fs::write(root.path().join("src/optim.rs"), lines.join("\n")).expect("a file");
        let run = sample::mixed();
        let page = render(&run, root.path());
        assert!(page.contains("<mark>88  line&#60;88&#62;</mark>"), "{page}");
        assert!(page.contains("86  line&#60;86&#62;") && page.contains("90  line&#60;90&#62;"));
        assert!(!page.contains("line&#60;91&#62;"), "{page}");
        let callers = "<dt>called by</dt><dd>train::epoch (src/train.rs:61)</dd>";
        assert!(page.contains(callers), "{page}");
    }

    /// A run that measured nothing must not look like a run without leaks.
    #[test]
    fn only_a_measured_run_without_leaks_is_green() {
        let summary = |statuses: &[CheckStatus]| {
            let reports = statuses.iter().map(|status| sample::report("a", *status));
            let page = render(&sample::run(reports.collect()), "/nowhere");
            let (_, class) = page.split_once("class=\"summary ").expect("a summary");
            class.split('"').next().map(str::to_owned)
        };
        let (clean, blind) = (CheckStatus::Clean, CheckStatus::NotMeasured);
        assert_eq!(summary(&[clean, blind]).as_deref(), Some("good"));
        assert_eq!(summary(&[blind]).as_deref(), Some("note"));
        assert_eq!(summary(&[]).as_deref(), Some("note"));
    }

    #[test]
    fn no_name_adds_markup_or_a_reference_to_another_page() {
        let run = sample::hostile();
        let page = render(&run, "/nowhere");
        assert_eq!(page.matches("<script>").count(), 1, "the page's own");
        assert!(!page.contains('\u{202e}') && !page.contains('\x1b'));
        assert!(!page.contains("http://") && !page.contains("https://"));
        assert!(
            !page.contains("unsafe-inline"),
            "the page's own style and script are identified by their hashes"
        );
    }
}
