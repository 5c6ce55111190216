//! What people and programs are shown.

use gpu_leak_check::report::model::Verdict;
use insta::assert_snapshot;

use super::sample::{self, HOSTILE, MIB};
use super::{Rendering, render};
use crate::arguments::Format;
use crate::overview::Overview;
use crate::run::Run;

fn shown(run: &Run, format: Format, width: usize) -> String {
    let how = Rendering {
        width,
        root: "/nowhere".into(),
    };
    let rendered = render(format, run, &Overview::of(run), &how).expect("a rendering");
    String::from_utf8(rendered).expect("text")
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
        let commands: Vec<_> = text
            .chars()
            .filter(|c| c.is_control() && *c != '\n')
            .collect();
        assert_eq!(commands, [], "{format:?}");
        // XML and HTML have their own ways to turn text, and show these as what they are.
        if format != Format::Junit {
            assert!(!text.contains('\u{202e}'), "{format:?}");
        }
        assert!(!text.contains(HOSTILE), "{format:?}");
    }
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
