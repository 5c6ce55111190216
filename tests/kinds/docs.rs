//! Compares the page about the kinds of resources with the table.

use std::{env, fs};

use gpu_leak_check::ledger::Kind;

use super::row::{AtContextEnd, Row};
use super::table::ROWS;

const PAGE: &str = include_str!("../../docs/kinds.md");

/// The variable that makes the test write the page instead of comparing it.
const BLESS: &str = "KINDS_BLESS";

/// Returns the row's line in the page, without the last column, which contains results from a GPU.
fn line(row: &Row) -> String {
    let exact = match row.bytes {
        _ if row.kind.is_handle() => "1".to_owned(),
        0 => "1; its size is not known".to_owned(),
        bytes => format!("1, {bytes} B"),
    };
    let end = match row.at_context_end {
        AtContextEnd::Dies => "found, and marked as freed by it",
        AtContextEnd::Aborts => {
            "found, and marked as freed by it; NVIDIA's driver may free it twice and abort"
        }
        AtContextEnd::Stays => "found: it outlives the context",
        AtContextEnd::NoContextOfItsOwn => "–",
    };
    let Row {
        name, call, kind, ..
    } = row;
    format!(
        "| {} | `{call}` | {exact} | ✔ | {end} | `kinds::table::{name}` |",
        kind.name()
    )
}

/// Returns the page with the rows of the table. A row that has not changed keeps its last column.
fn page() -> String {
    let is_row = |line: &&str| line.contains("`kinds::table::");
    let present: Vec<_> = PAGE.lines().filter(is_row).collect();
    let rows = ROWS.iter().map(line).map(|row| {
        let known = present.iter().find(|line| line.starts_with(&row));
        known.map_or_else(|| format!("{row} not run yet |"), |line| (*line).to_owned())
    });
    let rows: Vec<_> = rows.collect();
    let first = present.first().expect("a row");
    let last = present.last().expect("a row");
    let (before, _) = PAGE.split_once(first).expect("it is in the page");
    let (_, after) = PAGE.rsplit_once(last).expect("it is in the page");
    [before, &rows.join("\n"), after].concat()
}

#[test]
fn the_page_has_each_row_of_the_table_and_no_other() {
    let page = page();
    if env::var_os(BLESS).is_some() {
        return fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kinds.md"),
            page,
        )
        .expect("the page is written");
    }
    let wrong = PAGE.lines().zip(page.lines()).find(|(is, must)| is != must);
    assert!(
        page == PAGE,
        "docs/kinds.md does not have the rows of tests/kinds/table.rs: run this test once with \
         {BLESS}=1 (the first wrong line, and what it must be: {wrong:?})"
    );
}

#[test]
fn every_row_has_a_kind_of_cuda() {
    let others = ROWS.iter().map(|row| row.kind);
    let others: Vec<_> = others.filter(|kind| !kind.is_of_cuda()).collect();
    assert!(
        others.is_empty(),
        "in harness/core/src/ledger/kind.rs, CUDA's kinds come before `Device`, but not {others:?}"
    );
}

#[test]
fn every_kind_that_the_driver_makes_has_a_row() {
    let without: Vec<_> = Kind::ALL
        .into_iter()
        .filter(|kind| kind.is_of_cuda() && ROWS.iter().all(|row| row.kind != *kind))
        .collect();
    assert!(
        without.is_empty(),
        "no row of tests/kinds/table.rs plants {without:?}"
    );
}
