//! Tests of the formats on sample runs.

mod csv;
mod github;
mod hostile;
mod junit;
mod pytorch;

use clap::ValueEnum;
use gpu_leak_check::ledger::Place;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::{
    Budget, CheckStatus, Finding, FindingKind, Limit, Outcome, Peak, Reason, Report,
};
use insta::assert_snapshot;

use super::sample::{self, MIB};
use super::{Format, Settings, render};
use crate::overview::Overview;
use crate::run::Run;

fn shown(run: &Run, format: Format, width: usize) -> String {
    String::from_utf8(rendered(run, format, width)).expect("text")
}

fn rendered(run: &Run, format: Format, width: usize) -> Vec<u8> {
    let how = Settings {
        width,
        root: "/nowhere".into(),
        checkout: None,
    };
    render(format, &Overview::of(run), &how).expect("a rendering")
}

/// The reason of a check whose test did not leave what was expected.
const UNEXPECTED: &str = "expected to leave 1 object, but left 0 objects";

/// What a format must contain.
struct Expected {
    /// The line of a leak at line 61 of `src/train.rs`, through a wrapper. `None` if the format
    /// shows whole stacks.
    line: Option<&'static str>,
    /// The marks of a leak that only warns. Empty if the format shows what is held, regardless of
    /// the effect on a test.
    warned: &'static [&'static str],
    /// The marks of a check that fails because of [`UNEXPECTED`]. Empty if the format contains only
    /// findings.
    unexpected: &'static [&'static str],
}

fn expected(format: Format) -> Expected {
    let (line, warned, unexpected): (_, &[_], &[_]) = match format {
        Format::Text => (
            Some("train::epoch (src/train.rs:61) through gpu::allocate (src/optim.rs:88)"),
            &[
                "leaked (only warned): 2 × 512 KiB",
                "warned only, because `on_leak` is \"warn\": trains",
            ],
            &["1 checked: 1 unexpected (expectation)"],
        ),
        Format::Junit => (
            Some("src/train.rs:61"),
            &["the test still passes"],
            &["<failure message=", UNEXPECTED],
        ),
        Format::Markdown => (
            Some("src/train.rs:61"),
            &["| leaked (only warned) |"],
            &["1 unexpected"],
        ),
        Format::Github => (
            Some("file=src/train.rs,line=61"),
            &["::warning "],
            &[
                "::error file=tests/train.rs,line=28,title=gpu leak check%3A unexpected::leaks: expected",
            ],
        ),
        Format::Csv => (Some(",src/train.rs,61,train::epoch,"), &[",warn\n"], &[]),
        Format::Folded | Format::Flamegraph | Format::Snapshot => (None, &[], &[]),
        Format::Html => (Some("src/train.rs:61"), &["warned only"], &[UNEXPECTED]),
    };
    Expected {
        line,
        warned,
        unexpected,
    }
}

#[test]
fn text_merges_findings_of_tests_and_names_unfinished_tests() {
    assert_snapshot!(shown(&sample::mixed(), Format::Text, 100));
}

#[test]
fn text_keeps_to_the_width_of_the_terminal() {
    for width in [40, 60, 120] {
        let text = shown(&sample::mixed(), Format::Text, width);
        let widest = text.lines().map(textwrap::core::display_width).max();
        assert!(widest <= Some(width), "{widest:?} of {width}\n{text}");
    }
}

#[test]
fn markdown_is_a_list_and_a_table() {
    assert_snapshot!(shown(&sample::mixed(), Format::Markdown, 0));
}

/// Users do not look for a leak in a free function that only calls the API.
#[test]
fn every_format_shows_the_line_outside_a_wrapper() {
    let mut leak = sample::finding(FindingKind::Leaked, "gpu::allocate", 1, MIB);
    let mut of_api = leak.site.frames[0].clone();
    of_api.function = Some("cuMemAlloc_v2".into());
    leak.site.frames.insert(0, of_api);
    leak.site.user = Some(1);
    let run = sample::run(vec![sample::with("trains", &[leak])]);
    for format in Format::value_variants() {
        if let Some(line) = expected(*format).line {
            let text = shown(&run, *format, 100).replace("&#58;", ":");
            assert!(text.contains(line), "{format:?}\n{text}");
        }
    }
}

#[test]
fn folded_stacks_begin_outermost_and_are_weighed_by_bytes() {
    assert_snapshot!(shown(&sample::mixed(), Format::Folded, 0));
}

#[test]
fn text_counts_the_findings_that_it_leaves_out() {
    let leaks = (0..5000).map(|at| {
        let finding = sample::finding(FindingKind::Leaked, &format!("f{at}"), 1, MIB);
        sample::with(&format!("t{at}"), &[finding])
    });
    let text = shown(&sample::run(leaks.collect()), Format::Text, 100);
    assert!(text.contains("… and 4,980 more findings"), "{text}");
}

#[test]
fn contents_of_peaks_that_are_left_out_are_counted() {
    let peak = |device| Peak {
        place: Place::cuda(device),
        layer: "driver".to_owned(),
        bytes: MIB,
        run: 1,
        call: 1,
        calls: 1,
        lines: Vec::new(),
        reusable: Vec::new(),
    };
    let run = sample::run(vec![Report {
        peaks: (0..15).map(peak).collect(),
        ..sample::report("a", CheckStatus::Clean)
    }]);
    let text = shown(&run, Format::Text, 100);
    assert_eq!(text.matches("in a, the peak of").count(), 12, "{text}");
    let rest = "and 3 more peaks: use --format html to list them all\n";
    assert!(text.ends_with(rest), "{text}");
}

#[test]
fn a_summary_stays_within_a_mebibyte_and_counts_the_rest() {
    let name = "a_module::".repeat(30);
    let leaks = (0..5000).map(|at| {
        let finding = sample::finding(FindingKind::Leaked, &format!("{name}f{at}"), 1, MIB);
        let tests = ["a", "b", "c"].map(|test| format!("{name}{at}{test}"));
        tests.map(|test| sample::with(&test, std::slice::from_ref(&finding)))
    });
    let text = shown(&sample::run(leaks.flatten().collect()), Format::Markdown, 0);
    assert!(text.len() <= 1024 * 1024, "{} bytes", text.len());
    assert!(
        text.ends_with("more findings, omitted because GitHub limits the size of a summary\n"),
        "{}",
        &text[text.len() - 200..]
    );
}

#[test]
fn a_peak_above_a_budget_is_not_in_the_flame_graph_of_leaks() {
    let over = Finding {
        budget: Some(Budget {
            limit: Limit::MaxAllocated,
            allowed: 1,
            reached: MIB,
            when: None,
            reusable: Vec::new(),
            shares: Vec::new(),
        }),
        ..sample::finding(FindingKind::OverBudget, "peak", 1, MIB)
    };
    let leak = sample::finding(FindingKind::Leaked, "leak", 1, 4096);
    let once = Finding {
        kind: FindingKind::FirstUse,
        ..over.clone()
    };
    let run = sample::run(vec![sample::with("a", &[leak, over, once])]);
    let folded = shown(&run, Format::Folded, 0);
    assert_eq!(folded.lines().count(), 1, "{folded}");
    assert!(folded.ends_with(" 4096\n"), "{folded}");
}

#[test]
fn a_run_without_leaks_has_a_flame_graph_that_says_so() {
    let run = sample::run(vec![sample::report("a", CheckStatus::Clean)]);
    let svg = shown(&run, Format::Flamegraph, 0);
    assert!(svg.contains("no memory was left behind"), "{svg}");
}

#[test]
fn warnings_are_marked_and_fail_nothing() {
    let leak = sample::finding(FindingKind::Leaked, "optim::Adam::step", 2, MIB / 2);
    let warned = Report {
        outcome: Some(Outcome::Warn),
        ..sample::with("trains", &[leak])
    };
    let run = sample::run(vec![warned]);
    assert!(!Overview::of(&run).has_findings());
    for format in Format::value_variants() {
        let bytes = rendered(&run, *format, 100);
        let shown = String::from_utf8_lossy(&bytes);
        for mark in expected(*format).warned {
            assert!(shown.contains(mark), "{format:?} lacks {mark:?}: {shown}");
        }
        assert!(!shown.contains("::error "), "{shown}");
        assert!(!shown.contains("<failure"), "{shown}");
    }
}

#[test]
fn the_last_attempt_decides_and_a_flaky_test_is_named() {
    let run = sample::retried();
    let overview = Overview::of(&run);
    assert!(!overview.has_findings());
    let text = shown(&run, Format::Text, 100);
    assert!(text.contains("1 checked: 1 clean"), "{text}");
    let flaky = "flaky: trains: leaked in attempt 1, clean in attempt 2";
    assert!(text.contains(flaky), "{text}");
    let junit = shown(&run, Format::Junit, 0);
    assert!(junit.contains("<flakyFailure "), "{junit}");
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

#[test]
fn an_expected_leak_that_is_missing_fails_in_every_format_of_results() {
    let mut run = sample::run(vec![Report {
        reason: Some(Reason {
            code: Code::Expectation,
            what: UNEXPECTED.to_owned(),
            remedy: "change the option".to_owned(),
        }),
        outcome: Some(Outcome::Fail),
        ..sample::report("leaks", CheckStatus::Unexpected)
    }]);
    assert!(Overview::of(&run).has_findings());
    for format in Format::value_variants() {
        let bytes = rendered(&run, *format, 100);
        let shown = String::from_utf8_lossy(&bytes);
        for mark in expected(*format).unexpected {
            assert!(shown.contains(mark), "{format:?} lacks {mark:?}: {shown}");
        }
    }
    // In a run that only confirms an outer check, the finding does not make a test fail.
    run.processes[0].file.reports[0].outcome = Some(Outcome::Pass);
    assert!(!Overview::of(&run).has_findings());
}
