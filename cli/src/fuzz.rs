//! The fuzz target of the renderers: for any run file, the output is plain text, XML that parses,
//! or an HTML page without injected markup.

use std::fs;

use clap::ValueEnum;

use crate::overview::Overview;
use crate::render::{Format, Settings, render};
use crate::run::Run;

/// Renders a run file in every format.
pub(crate) fn renderers(input: &[u8]) {
    let directory = std::env::temp_dir().join(format!("gpu-leak-renderers-{}", std::process::id()));
    let file = directory.join("train-1.jsonl");
    fs::create_dir_all(&directory).expect("a directory for the run");
    fs::write(&file, input).expect("a run file");
    let run = Run::read(&[file]).unwrap_or_else(|why| panic!("{}", why.message));
    let shown = |format, run: &Run| {
        let how = Settings {
            width: 80,
            root: "/nowhere".into(),
            checkout: None,
        };
        let bytes = render(format, &Overview::of(run), &how).expect("a rendering");
        String::from_utf8(bytes).unwrap_or_default()
    };
    for format in Format::value_variants() {
        let text = shown(*format, &run);
        let is_control = |c: char| c.is_control() && c != '\n';
        // A pickle is not text, so the only check is that it can be written.
        assert!(
            format.is_binary() || !text.contains(is_control),
            "{format:?}: {text:?}"
        );
        match format {
            Format::Junit | Format::Flamegraph => is_xml(&text),
            Format::Html => {
                has_no_more_markup(
                    &text.to_lowercase(),
                    &shown(Format::Html, &Run::default()).to_lowercase(),
                );
            }
            Format::Text
            | Format::Markdown
            | Format::Github
            | Format::Csv
            | Format::Folded
            | Format::Snapshot => {}
        }
    }
    let _ = fs::remove_dir_all(&directory);
}

fn is_xml(text: &str) {
    let allowed = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let parsed = roxmltree::Document::parse_with_options(text, allowed);
    assert!(parsed.is_ok(), "{parsed:?}: {text}");
}

fn has_no_more_markup(page: &str, empty: &str) {
    for markup in ["<script", "<img", "<iframe", "<style"] {
        let count = |page: &str| page.matches(markup).count();
        assert_eq!(count(page), count(empty), "{markup}: {page}");
    }
}

#[cfg(test)]
mod tests;
