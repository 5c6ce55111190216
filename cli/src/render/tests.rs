//! What people and programs are shown.

use gpu_leak_check::report::model::Verdict;
use insta::assert_snapshot;

use super::sample::{self, HOSTILE, MIB};
use super::{Rendering, render};
use crate::arguments::Format;
use crate::overview::Overview;
use crate::run::Run;

fn shown(run: &Run, format: Format, width: usize) -> String {
    String::from_utf8(rendered(run, format, width)).expect("text")
}

fn rendered(run: &Run, format: Format, width: usize) -> Vec<u8> {
    let how = Rendering {
        width,
        root: "/nowhere".into(),
    };
    render(format, run, &Overview::of(run), &how).expect("a rendering")
}

#[test]
fn text_merges_findings_over_tests_and_names_what_did_not_end() {
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

#[test]
fn annotations_point_at_the_lines() {
    assert_snapshot!(shown(&sample::mixed(), Format::Github, 0));
}

#[test]
fn csv_has_a_row_a_finding() {
    assert_snapshot!(shown(&sample::mixed(), Format::Csv, 0));
}

#[test]
fn folded_stacks_begin_outermost_and_are_weighed_by_bytes() {
    assert_snapshot!(shown(&sample::mixed(), Format::Folded, 0));
}

#[test]
fn junit_has_a_case_a_check_and_tells_each_sort_apart() {
    let text = shown(&sample::mixed(), Format::Junit, 0);
    let junit = roxmltree::Document::parse(&text).expect("XML");
    let outcome = |test: &str| {
        let mut cases = junit.descendants().filter(|it| it.has_tag_name("testcase"));
        let case = cases
            .find(|it| it.attribute("name") == Some(test))
            .expect(test);
        let child = case.children().find(roxmltree::Node::is_element);
        child.map(|child| {
            (
                child.tag_name().name().to_owned(),
                child.attribute("type").map(str::to_owned),
            )
        })
    };
    let told = |tag: &str, kind: &str| Some((tag.to_owned(), Some(kind.to_owned())));
    assert_eq!(outcome("trains"), told("failure", "leaked"));
    assert_eq!(outcome("crashes"), told("error", "aborted"));
    assert_eq!(outcome("reads_the_device"), told("skipped", "not-measured"));
    assert_eq!(outcome("is_clean"), None);
    let failure = junit
        .descendants()
        .find(|it| it.has_tag_name("failure"))
        .expect("a failure");
    let message = failure.attribute("message").unwrap_or_default();
    assert_eq!(
        message,
        "gpu leak: 2 allocations, 1.00 MiB on cuda:0, taken at src/optim.rs:88"
    );
    assert!(
        failure
            .text()
            .is_some_and(|text| text.contains("called by")),
        "{text}"
    );
}

#[test]
fn github_is_given_no_more_than_it_shows() {
    let leaks = (0..5000).map(|at| {
        let finding = sample::finding(Verdict::Leaked, &format!("f{at}"), 1, MIB);
        sample::with(&format!("t{at}"), &[finding])
    });
    let run = sample::run(leaks.collect());
    let text = shown(&run, Format::Github, 0);
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("::error "))
            .count(),
        10
    );
    assert!(
        text.contains("4,990 more errors than GitHub shows"),
        "{text}"
    );
    let text = shown(&run, Format::Text, 100);
    assert!(text.contains("… and 4,980 more findings"), "{text}");
}

#[test]
fn a_summary_stays_inside_a_mebibyte_and_counts_the_rest() {
    let name = "a_module::".repeat(30);
    let leaks = (0..5000).map(|at| {
        let finding = sample::finding(Verdict::Leaked, &format!("{name}f{at}"), 1, MIB);
        let tests = ["a", "b", "c"].map(|test| format!("{name}{at}{test}"));
        tests.map(|test| sample::with(&test, std::slice::from_ref(&finding)))
    });
    let text = shown(&sample::run(leaks.flatten().collect()), Format::Markdown, 0);
    assert!(text.len() <= 1024 * 1024, "{} bytes", text.len());
    assert!(
        text.ends_with("more findings: the size of a summary is limited\n"),
        "{}",
        &text[text.len() - 200..]
    );
}

#[test]
fn a_hostile_name_is_text_in_every_format() {
    let run = sample::hostile();
    for format in [
        Format::Text,
        Format::Junit,
        Format::Markdown,
        Format::Github,
        Format::Csv,
        Format::Folded,
        Format::Html,
    ] {
        let text = shown(&run, format, 100);
        assert_eq!(commands_in(&text), [] as [char; 0], "{format:?}");
        // XML and HTML have their own ways to turn text, and show these as what they are.
        if format != Format::Junit {
            assert!(!text.contains('\u{202e}'), "{format:?}");
        }
        assert!(!text.contains(HOSTILE), "{format:?}");
    }
}

/// What a terminal would act on.
fn commands_in(text: &str) -> Vec<char> {
    let commands = text.chars().filter(|c| c.is_control() && *c != '\n');
    commands.collect()
}

#[test]
fn a_hostile_name_is_text_in_a_flame_graph() {
    let svg = shown(&sample::hostile(), Format::Flamegraph, 0);
    let svg = roxmltree::Document::parse_with_options(
        &svg,
        roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        },
    )
    .expect("XML");
    let told: Vec<_> = svg
        .descendants()
        .filter(|node| node.has_tag_name("title") || node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect();
    assert!(
        told.iter().any(|text| text.contains("<script>")),
        "{told:?}"
    );
    for text in told {
        assert_eq!(commands_in(text), [] as [char; 0], "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    // Its own one, and no other.
    let scripts = svg.descendants().filter(|it| it.has_tag_name("script"));
    assert_eq!(scripts.count(), 1);
}

#[test]
fn a_run_without_leaks_has_a_flame_graph_that_says_so() {
    let run = sample::run(vec![sample::report("a", Verdict::Clean)]);
    let svg = shown(&run, Format::Flamegraph, 0);
    assert!(svg.contains("nothing was left behind"), "{svg}");
}

/// What a snapshot says: its parts by name.
fn unpickled(bytes: &[u8]) -> serde_json::Value {
    serde_pickle::from_slice(bytes, serde_pickle::DeOptions::new()).expect("a pickle")
}

fn sum(segments: &serde_json::Value, of: &str) -> u64 {
    let segments = segments.as_array().expect("segments").iter();
    segments.filter_map(|segment| segment[of].as_u64()).sum()
}

#[test]
fn a_snapshots_totals_are_those_of_the_findings() {
    let reserve = gpu_leak_check::report::model::Finding {
        kind: None,
        each: None,
        ..sample::finding(Verdict::Retained, "pool", 1, 32 * MIB)
    };
    let leak = sample::finding(Verdict::Leaked, "optim::Adam::step", 2, MIB / 2);
    let over = sample::finding(Verdict::OverBudget, "peak", 1, 7 * MIB);
    let run = sample::run(vec![sample::with("trains", &[leak, reserve, over])]);
    let snapshot = unpickled(&rendered(&run, Format::Snapshot, 0));
    let segments = &snapshot["segments"];
    assert_eq!(sum(segments, "total_size"), 33 * MIB);
    assert_eq!(sum(segments, "allocated_size"), MIB);
    for segment in segments.as_array().expect("segments") {
        assert_eq!(
            sum(&segment["blocks"], "size"),
            segment["total_size"].as_u64().expect("bytes")
        );
    }
    let frame = &segments[0]["blocks"][1]["frames"][0];
    assert_eq!(frame["name"], "optim::Adam::step");
    assert_eq!(frame["filename"], "src/optim.rs");
    assert_eq!(frame["line"], 88);
    assert_eq!(snapshot["device_traces"], serde_json::json!([[]]));
}

#[test]
fn a_hostile_name_is_text_in_a_snapshot() {
    let snapshot = unpickled(&rendered(&sample::hostile(), Format::Snapshot, 0));
    fn strings(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::String(text) => found.push(text.clone()),
            serde_json::Value::Array(values) => values.iter().for_each(|it| strings(it, found)),
            serde_json::Value::Object(fields) => fields.values().for_each(|it| strings(it, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    strings(&snapshot, &mut found);
    assert!(
        found.iter().any(|text| text.contains("<script>")),
        "{found:?}"
    );
    for text in found {
        assert_eq!(commands_in(&text), [] as [char; 0], "{text:?}");
        assert!(text.chars().count() <= 1000, "{text}");
    }
}

#[test]
fn what_is_only_warned_of_is_told_as_such_and_fails_nothing() {
    let leak = sample::finding(Verdict::Leaked, "optim::Adam::step", 2, MIB / 2);
    let warned = gpu_leak_check::report::model::Report {
        outcome: Some(gpu_leak_check::report::model::Outcome::Warn),
        ..sample::with("trains", &[leak])
    };
    let run = sample::run(vec![warned]);
    assert!(!Overview::of(&run).has_findings());
    let text = shown(&run, Format::Text, 100);
    assert!(text.contains("leaked (only warned): 2 × 512 KiB"), "{text}");
    assert!(
        text.contains("only warned, for `on_leak` is \"warn\": trains"),
        "{text}"
    );
    let markdown = shown(&run, Format::Markdown, 0);
    assert!(markdown.contains("| leaked (only warned) |"), "{markdown}");
    let github = shown(&run, Format::Github, 0);
    assert!(github.starts_with("::warning "), "{github}");
    let csv = shown(&run, Format::Csv, 0);
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.ends_with(",warn")),
        "{csv}"
    );
    let html = shown(&run, Format::Html, 0);
    assert!(html.contains("only warned"), "{html}");
    let junit = shown(&run, Format::Junit, 0);
    assert!(!junit.contains("<failure"), "{junit}");
    assert!(junit.contains("the test passes all the same"), "{junit}");
}

#[test]
fn annotations_are_no_more_than_github_shows_of_a_step() {
    let many = |outcome: gpu_leak_check::report::model::Outcome| {
        let reports = (0..5_000).map(|at| {
            let mut leak = sample::finding(Verdict::Leaked, "optim::Adam::step", 1, MIB);
            leak.site.fingerprint = format!("{at}");
            gpu_leak_check::report::model::Report {
                outcome: Some(outcome),
                ..sample::with(&format!("trains_{at}"), &[leak])
            }
        });
        reports.collect::<Vec<_>>()
    };
    let mut reports = many(gpu_leak_check::report::model::Outcome::Warn);
    let github = shown(&sample::run(reports.clone()), Format::Github, 0);
    assert_eq!(github.matches("::warning ").count(), 10, "{github}");
    assert!(
        github.contains("4,990 more warnings than GitHub shows of one step"),
        "{github}"
    );

    reports.truncate(30);
    for report in &mut reports {
        for finding in &mut report.findings {
            finding.site.fingerprint += "w";
        }
    }
    reports.extend(many(gpu_leak_check::report::model::Outcome::Fail));
    let github = shown(&sample::run(reports), Format::Github, 0);
    assert_eq!(github.matches("::error ").count(), 10, "{github}");
    assert_eq!(github.matches("::warning ").count(), 10, "{github}");
    assert!(github.contains("4,990 more errors"), "{github}");
    assert!(github.contains("20 more warnings"), "{github}");
}

#[test]
fn a_check_that_failed_its_test_unseen_is_an_error_and_not_skipped() {
    let blind = gpu_leak_check::report::model::Report {
        outcome: Some(gpu_leak_check::report::model::Outcome::Fail),
        ..sample::report("reads", Verdict::NotMeasured)
    };
    let junit = shown(&sample::run(vec![blind]), Format::Junit, 0);
    assert!(junit.contains("<error "), "{junit}");
    assert!(!junit.contains("<skipped"), "{junit}");
}

/// What [Jenkins' schema][1] lets an element have: attributes that it must have, others, elements.
///
/// [1]: https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
type Rule = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);
const JENKINS: &[Rule] = &[
    (
        "testsuites",
        &[],
        &["name", "time", "tests", "failures", "errors"],
        &["testsuite"],
    ),
    (
        "testsuite",
        &["name", "tests", "failures", "errors"],
        &["group", "time", "skipped", "timestamp", "hostname", "id"],
        &[
            "testsuite",
            "properties",
            "testcase",
            "system-out",
            "system-err",
        ],
    ),
    (
        "testcase",
        &["name"],
        &["time", "classname", "group"],
        &[
            "skipped",
            "error",
            "failure",
            "rerunFailure",
            "rerunError",
            "flakyFailure",
            "flakyError",
            "system-out",
            "system-err",
        ],
    ),
    ("failure", &[], &["type", "message"], &[]),
    ("error", &[], &["type", "message"], &[]),
    ("skipped", &[], &["type", "message"], &[]),
    ("system-out", &[], &[], &[]),
    (
        "flakyFailure",
        &["type"],
        &["message"],
        &["stackTrace", "system-out", "system-err"],
    ),
    (
        "flakyError",
        &["type"],
        &["message"],
        &["stackTrace", "system-out", "system-err"],
    ),
    (
        "rerunFailure",
        &["type"],
        &["message"],
        &["stackTrace", "system-out", "system-err"],
    ),
    (
        "rerunError",
        &["type"],
        &["message"],
        &["stackTrace", "system-out", "system-err"],
    ),
];

#[test]
fn junit_is_what_ci_systems_take() {
    for run in [sample::mixed(), sample::hostile(), sample::retried()] {
        let text = shown(&run, Format::Junit, 0);
        let junit = roxmltree::Document::parse(&text).expect("XML");
        for element in junit.descendants().filter(roxmltree::Node::is_element) {
            let name = element.tag_name().name();
            let rule = JENKINS.iter().find(|(of, ..)| *of == name);
            let (_, required, optional, inside) = rule.expect(name);
            for attribute in *required {
                assert!(element.has_attribute(*attribute), "{name}: {attribute}");
            }
            for attribute in element.attributes() {
                let attribute = attribute.name();
                let is_known = required.contains(&attribute) || optional.contains(&attribute);
                assert!(is_known, "{name}: {attribute}");
            }
            for child in element.children().filter(roxmltree::Node::is_element) {
                let child = child.tag_name().name();
                assert!(inside.contains(&child), "{name}: {child}");
            }
        }
    }
}

#[test]
fn of_several_attempts_the_last_one_decides_and_the_others_are_told() {
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
fn a_hostile_name_opens_nothing_in_markup() {
    let run = sample::hostile();
    let markdown = shown(&run, Format::Markdown, 0);
    assert!(!markdown.contains("<script"), "{markdown}");
    for row in markdown.lines().filter(|line| line.starts_with("| leaked")) {
        assert_eq!(row.matches('|').count(), 6, "{row}");
    }
    let junit = shown(&run, Format::Junit, 0);
    let junit = roxmltree::Document::parse(&junit).expect("XML");
    assert!(!junit.descendants().any(|node| node.has_tag_name("script")));
    let github = shown(&run, Format::Github, 0);
    for line in github.lines() {
        assert!(
            line.starts_with("::error ") || line.starts_with("gpu-leak-check: "),
            "{line}"
        );
    }
    let folded = shown(&run, Format::Folded, 0);
    for line in folded.lines() {
        // The test, two frames, the kind.
        assert_eq!(line.split(';').count(), 4, "{line}");
    }
}
