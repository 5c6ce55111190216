//! Tests of the JUnit XML that CI systems read.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome, Report};
use gpu_leak_check::report::run_file::Began;

use super::shown;
use crate::render::sample::MIB;
use crate::render::{Format, sample};
use crate::run::Run;

#[test]
fn junit_has_a_case_for_each_check_and_distinguishes_outcomes() {
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
    let expected = |tag: &str, kind: &str| Some((tag.to_owned(), Some(kind.to_owned())));
    assert_eq!(outcome("trains"), expected("failure", "leaked"));
    assert_eq!(outcome("crashes"), expected("error", "aborted"));
    assert_eq!(
        outcome("reads_the_device"),
        expected("skipped", "not-measured")
    );
    assert_eq!(outcome("is_clean"), None);
    let failure = junit
        .descendants()
        .find(|it| it.has_tag_name("failure"))
        .expect("a failure");
    let message = failure.attribute("message").unwrap_or_default();
    assert_eq!(
        message,
        "gpu leak: 2 allocations, 1.00 MiB on cuda:0, allocated at src/optim.rs:88"
    );
    assert!(
        failure
            .text()
            .is_some_and(|text| text.contains("called by")),
        "{text}"
    );
}

#[test]
fn figures_and_the_commit_are_properties_of_the_suite() {
    let value = |run: &Run, name: &str| {
        let text = shown(run, Format::Junit, 0);
        let junit = roxmltree::Document::parse(&text).expect("XML");
        let mut all = junit.descendants().filter(|it| it.has_tag_name("property"));
        let property = all.find(|it| it.attribute("name") == Some(name));
        property.and_then(|it| it.attribute("value").map(str::to_owned))
    };
    let run = sample::mixed();
    let peak = value(&run, "is_clean/cuda:0/driver/allocated/peak");
    assert_eq!(peak, Some((73 * MIB).to_string()));
    let commit = value(&sample::retried(), "commit");
    let expected = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(commit.as_deref(), Some(expected));
}

#[test]
fn a_failed_check_that_measured_nothing_is_an_error_and_not_skipped() {
    let blind = Report {
        outcome: Some(Outcome::Fail),
        ..sample::report("reads", CheckStatus::NotMeasured)
    };
    let junit = shown(&sample::run(vec![blind]), Format::Junit, 0);
    assert!(junit.contains("<error "), "{junit}");
    assert!(!junit.contains("<skipped"), "{junit}");
}

#[test]
fn an_aborted_test_keeps_its_earlier_attempts() {
    let mut run = sample::retried();
    let last = &mut run.processes[0].file;
    last.reports.clear();
    last.aborted.push(Began {
        test: "trains".to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 28,
    });
    let junit = shown(&run, Format::Junit, 0);
    assert!(junit.contains("<error "), "{junit}");
    assert!(junit.contains("<rerunFailure "), "{junit}");
}

/// XML 1.0 cannot represent U+FFFE and U+FFFF, not even as references.
#[test]
fn a_name_with_a_noncharacter_is_well_formed() {
    let name = "a\u{ffff}\u{fffe}b";
    let leak = sample::finding(FindingKind::Leaked, name, 1, MIB);
    let run = sample::run(vec![sample::with(name, &[leak])]);
    for format in [Format::Junit, Format::Flamegraph] {
        let text = shown(&run, format, 0);
        assert!(!text.contains(['\u{fffe}', '\u{ffff}']), "{text}");
    }
}

/// CI systems identify a test by its name.
#[test]
fn long_names_are_distinguished() {
    let half = "n".repeat(2_000);
    let names = ["a", "b"].map(|middle| format!("{half}{middle}{half}"));
    let reports = names.each_ref();
    let reports = reports.map(|name| sample::report(name, CheckStatus::Clean));
    let junit = shown(&sample::run(reports.into()), Format::Junit, 0);
    assert!(names.iter().all(|name| junit.contains(name)), "{junit}");
}

#[test]
fn each_problem_of_the_run_is_a_line() {
    let mut run = sample::mixed();
    run.problems.push("another problem".to_owned());
    let junit = shown(&run, Format::Junit, 0);
    assert!(junit.contains("\nanother problem</error>"), "{junit}");
}

/// The contents that [Jenkins' schema][1] allows in an element: required attributes, optional
/// attributes, and child elements.
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
    ("properties", &[], &[], &["property"]),
    ("property", &["name", "value"], &[], &[]),
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
fn junit_has_only_what_ci_systems_accept() {
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
