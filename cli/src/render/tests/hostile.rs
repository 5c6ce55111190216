//! Names that contain markup and control characters.

use clap::ValueEnum;

use super::snapshot::unpickled;
use super::{rendered, shown};
use crate::render::Format;
use crate::render::sample::{self, HOSTILE};

#[test]
fn a_hostile_name_is_text_in_every_format() {
    let run = sample::hostile();
    // These two are files of other kinds.
    let are_text = |it: &&Format| !matches!(it, Format::Flamegraph | Format::Snapshot);
    for format in Format::value_variants().iter().filter(are_text).copied() {
        let text = shown(&run, format, 100);
        assert_eq!(control_characters(&text), [] as [char; 0], "{format:?}");
        // JUnit may contain this character, since XML can represent it.
        if format != Format::Junit {
            assert!(!text.contains('\u{202e}'), "{format:?}");
        }
        assert!(!text.contains(HOSTILE), "{format:?}");
    }
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
    let texts: Vec<_> = svg
        .descendants()
        .filter(|node| node.has_tag_name("title") || node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("<script>")),
        "{texts:?}"
    );
    for text in texts {
        assert_eq!(control_characters(text), [] as [char; 0], "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    // Only the flame graph's own.
    let scripts = svg.descendants().filter(|it| it.has_tag_name("script"));
    assert_eq!(scripts.count(), 1);
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
        assert_eq!(control_characters(&text), [] as [char; 0], "{text:?}");
        assert!(text.chars().count() <= 1000, "{text}");
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

/// The characters that a terminal would act on.
fn control_characters(text: &str) -> Vec<char> {
    let commands = text.chars().filter(|c| c.is_control() && *c != '\n');
    commands.collect()
}
