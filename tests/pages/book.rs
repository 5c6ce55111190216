//! The book of the pages in `docs`. GitHub shows the same pages, so each page must work in both.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{find_pages, links, root, without_code};

/// The maximum number of words in the parts of the book that new users read.
const WORDS_OF_A_BEGINNING: usize = 4_000;

fn docs() -> PathBuf {
    root().join("docs")
}

fn page(name: &str) -> String {
    fs::read_to_string(docs().join(name)).expect("a page of the book")
}

/// Returns the names of all files of the book except its summary.
fn pages() -> BTreeSet<String> {
    let mut paths = Vec::new();
    find_pages(&docs(), &mut paths);
    let inside = paths.iter().map(|path| path.strip_prefix(docs()));
    let names = inside.map(|path| path.expect("below it").display().to_string());
    names.filter(|name| name != "SUMMARY.md").collect()
}

/// Returns the names of the pages that `part` of the summary lists.
fn listed(part: &str) -> Vec<String> {
    links(part).map(str::to_owned).collect()
}

/// Returns the lines of each code block in `text` that begins with this fence.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let after = text.split(&fence).skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let listed = listed(&page("SUMMARY.md"));
    let once: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(once, pages());
    assert_eq!(once.len(), listed.len(), "{listed:?}");
}

/// The book consists only of the pages, so a relative link to another file has no target in it.
#[test]
fn no_page_has_a_relative_link_out_of_the_book() {
    let mut outside = Vec::new();
    for name in pages() {
        let text = page(&name);
        let prose = without_code(&text);
        let links = links(&prose).filter(|link| link.starts_with("..") || link.starts_with('/'));
        outside.extend(links.map(|link| format!("docs/{name}: {link}")));
    }
    assert!(
        outside.is_empty(),
        "these need the address of the repository:\n{}",
        outside.join("\n")
    );
}

/// rustdoc and mdBook hide such lines, but GitHub and crates.io show them.
#[test]
fn no_sample_has_hidden_lines() {
    let mut all = Vec::new();
    find_pages(&root(), &mut all);
    let is_hidden = |line: &&str| line.trim_start().starts_with("# ");
    for path in all {
        let text = fs::read_to_string(&path).expect("a page");
        for block in ["rust", "rust,ignore"].map(|language| blocks(&text, language)) {
            let hidden = block.iter().flat_map(|block| block.lines()).find(is_hidden);
            assert_eq!(hidden, None, "{}", path.display());
        }
    }
}

#[test]
fn every_sample_is_compiled() {
    let compiled = include_str!("../support/book.rs");
    let has_samples = |name: &String| !blocks(&page(name), "rust").is_empty();
    let pages: Vec<_> = pages().into_iter().filter(has_samples).collect();
    assert!(pages.len() > 2, "only {pages:?} have samples");
    for name in pages {
        let path = format!("/docs/{name}\"");
        assert!(
            compiled.contains(&path),
            "tests/support/book.rs lacks {name}"
        );
    }
}

#[test]
fn every_known_allocator_is_named_in_the_documentation() {
    const TABLE: &str = include_str!("../../harness/core/src/call_site/allocators.rs");
    let (_, rows) = TABLE.split_once("const ALLOCATORS").expect("the table");
    let (rows, _) = rows.split_once("];").expect("the table's end");
    let rows = rows.split("row(").skip(1);
    let names: Vec<_> = rows.filter_map(|row| row.split('"').nth(1)).collect();
    assert!(names.len() > 5, "{names:?}");
    for place in [
        "harness/src/probe.rs",
        "docs/how-it-decides.md",
        "docs/limits.md",
        "docs/frameworks.md",
    ] {
        let text = fs::read_to_string(root().join(place)).expect(place);
        // The page calls `onnxruntime` by its full name, `ONNX Runtime`.
        let text = text.to_lowercase().replace(' ', "");
        let missing: Vec<_> = names.iter().filter(|name| !text.contains(**name)).collect();
        assert!(
            missing.is_empty(),
            "{place} does not name the allocators {missing:?}"
        );
    }
}

#[test]
fn the_pages_for_new_users_are_short() {
    let summary = page("SUMMARY.md");
    let (_, parts) = summary.split_once("# First steps").expect("a part");
    let (parts, _) = parts.split_once("# Reference").expect("another part");
    let listed = listed(parts);
    assert!(listed.len() > 5, "{listed:?}");
    let pages = listed.iter();
    let pages: Vec<_> = pages
        .map(|name| (page(name).split_whitespace().count(), name))
        .collect();
    let words: usize = pages.iter().map(|(words, _)| words).sum();
    assert!(
        words <= WORDS_OF_A_BEGINNING,
        "first steps and how-tos have {words} words, and may have {WORDS_OF_A_BEGINNING}: shorten one of them, or \
         move what a new user does not need to a page of the reference: {pages:?}"
    );
}
