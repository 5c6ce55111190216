//! Tests of names that contain markup and control characters.

use clap::ValueEnum;
use gpu_leak_check::ledger::Place;
use gpu_leak_check::report::check_report::When;
use serde_json::json;

use super::pytorch::unpickled;
use super::{rendered, shown};
use crate::render::Format;
use crate::render::sample::{self, HOSTILE};

#[test]
fn a_hostile_name_is_text_in_every_format() {
    let run = sample::hostile();
    for format in Format::value_variants() {
        let output = rendered(&run, *format, 100);
        // GitHub runs such a line of a log as a command. Only the format for GitHub contains such
        // commands on purpose.
        let is_command = |line: &str| line.trim_start().starts_with("::");
        let log = String::from_utf8_lossy(&output);
        let has_commands = *format != Format::Github && log.lines().any(is_command);
        assert!(!has_commands, "{format:?}: {log}");
        let found = texts(*format, &output);
        for text in &found {
            assert_eq!(
                control_characters(text),
                [] as [char; 0],
                "{format:?}: {text:?}"
            );
            for hostile in ["\u{202e}", "##[", "##vso[", "##teamcity[", HOSTILE] {
                assert!(!text.contains(hostile), "{format:?}: {text:?}");
            }
        }
        let is_named = found.iter().any(|text| text.contains("alert(1)"));
        assert!(is_named, "{format:?}: {found:?}");
    }
}

#[test]
fn no_number_of_calls_is_too_large_for_the_page() {
    let most = u64::MAX;
    let course = json!({
        "place": "cuda:0", "layer": "driver", "figure": "allocated", "start": 0, "peak": most,
        "points": [[1, 0, 64], [most, 64, most]], "lost": 0,
    });
    let of_run =
        json!({ "purpose": "judged", "calls": most, "body": most - 1, "curves": [course] });
    let timeline = json!({ "runs": [of_run, of_run], "left_out": 0 });
    let mut run = sample::mixed();
    let report = &mut run.processes[0].file.reports[0];
    report.timeline = Some(serde_json::from_value(timeline).expect("a timeline"));
    assert!(shown(&run, Format::Html, 0).contains("<svg"));
}

#[test]
fn a_timeline_marks_findings_on_a_device_whose_name_is_escaped() {
    let place = "pool\u{202e}:0";
    let course = json!({
        "place": place, "layer": "driver", "figure": "allocated", "start": 0, "peak": 64,
        "points": [[1, 0, 64]], "lost": 0,
    });
    let of_run = json!({ "purpose": "judged", "calls": 2, "body": 2, "curves": [course] });
    let timeline = json!({ "runs": [of_run], "left_out": 0 });
    let mut run = sample::mixed();
    let report = &mut run.processes[0].file.reports[0];
    report.timeline = Some(serde_json::from_value(timeline).expect("a timeline"));
    report.findings[0].place = Place::named(place);
    let (first, last, of) = (1, 1, 2);
    report.findings[0].when = Some(When { first, last, of });
    assert!(shown(&run, Format::Html, 0).contains("class=\"mark bad\""));
}

/// Returns the texts that a reader of the format sees: those inside a pickle or a picture,
/// otherwise the whole output.
fn texts(format: Format, rendered: &[u8]) -> Vec<String> {
    let whole = || String::from_utf8(rendered.to_vec()).expect("text");
    match format {
        Format::Snapshot => strings(&unpickled(rendered)),
        Format::Flamegraph => {
            let svg = whole();
            let svg = flamegraph(&svg);
            let shown = svg.descendants();
            let shown =
                shown.filter(|node| node.has_tag_name("title") || node.has_tag_name("text"));
            let texts = shown.filter_map(|node| node.text());
            texts.map(str::to_owned).collect()
        }
        Format::Text
        | Format::Junit
        | Format::Markdown
        | Format::Github
        | Format::Csv
        | Format::Folded
        | Format::Html => vec![whole()],
    }
}

/// Returns all strings in a value, without the names of its fields.
fn strings(value: &serde_json::Value) -> Vec<String> {
    match value {
        serde_json::Value::String(text) => vec![text.clone()],
        serde_json::Value::Array(values) => values.iter().flat_map(strings).collect(),
        serde_json::Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

fn flamegraph(svg: &str) -> roxmltree::Document<'_> {
    let allowed = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    roxmltree::Document::parse_with_options(svg, allowed).expect("XML")
}

#[test]
fn a_flame_graph_has_no_script_but_its_own() {
    let svg = shown(&sample::hostile(), Format::Flamegraph, 0);
    let svg = flamegraph(&svg);
    let scripts = svg.descendants().filter(|it| it.has_tag_name("script"));
    assert_eq!(scripts.count(), 1);
}

#[test]
fn a_long_name_is_cut_in_a_snapshot() {
    let snapshot = unpickled(&rendered(&sample::hostile(), Format::Snapshot, 0));
    for text in strings(&snapshot) {
        assert!(text.chars().count() <= 1000, "{text}");
    }
}

#[test]
fn a_hostile_name_adds_no_markup() {
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
        // The parts are the test, two frames and the kind.
        assert_eq!(line.split(';').count(), 4, "{line}");
    }
}

/// Returns the characters that a terminal would act on.
fn control_characters(text: &str) -> Vec<char> {
    let commands = text.chars().filter(|c| c.is_control() && *c != '\n');
    commands.collect()
}
