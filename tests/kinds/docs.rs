//! Compares the page about the kinds of resources with the table.

use gpu_leak_check::ledger::Kind;

use super::row::{AtContextEnd, Row};
use super::table::ROWS;

const PAGE: &str = include_str!("../../docs/kinds.md");

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

#[test]
fn the_page_has_each_row_of_the_table_and_no_other() {
    let mut reported = PAGE.lines().filter(|line| line.contains("`kinds::table::"));
    for wanted in ROWS.iter().map(line) {
        let reported = reported.next().unwrap_or("the end of the table");
        assert!(
            reported.starts_with(&wanted),
            "docs/kinds.md has\n{reported}\nand must have, with the result of a GPU or `not run yet` in the last column,\n{wanted}"
        );
    }
    assert_eq!(reported.next(), None, "no row of tests/kinds/table.rs");
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
