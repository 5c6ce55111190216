//! Tests of the CSV for spreadsheets and scripts.

use gpu_leak_check::report::check_report::FindingKind;
use insta::assert_snapshot;

use super::shown;
use crate::render::{Format, sample};

#[test]
fn csv_has_a_row_for_each_finding() {
    assert_snapshot!(shown(&sample::mixed(), Format::Csv, 0));
}

#[test]
fn csv_names_every_test_in_full() {
    let leaked = [sample::finding(
        FindingKind::Leaked,
        "optim::Adam::step",
        1,
        512,
    )];
    let names: Vec<_> = (0..100)
        .map(|at| format!("{}::{at}", "long".repeat(50)))
        .collect();
    let run = sample::run(
        names
            .iter()
            .map(|name| sample::with(name, &leaked))
            .collect(),
    );
    let csv = shown(&run, Format::Csv, 0);
    for name in names {
        assert!(csv.contains(&name), "{name}");
    }
}
