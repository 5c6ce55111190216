//! `test_case` adds `#[test]` above all other attributes of the function.

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Place, gpu_leak_check, registry};
use test_case::{test_case, test_matrix};

use super::fails;

#[gpu_leak_check(tolerance = 7)]
#[test_case(1)]
#[test_case(2; "named")]
fn cases(number: u32) {
    assert!(number > 0);
}

#[gpu_leak_check]
#[test_case(0 => panics "zero")]
#[test_case(1 => 1)]
fn outcomes(number: u32) -> u32 {
    assert!(number > 0, "zero");
    number
}

#[gpu_leak_check]
#[test_matrix([1, 2], [3])]
fn matrix(one: u32, other: u32) {
    assert_ne!(one, other);
}

#[test]
fn every_case_is_registered_once_with_the_options() {
    let mut cases = registry::cases();
    cases.retain(|case| case.name().starts_with("attribute::test_case::cases"));
    assert_eq!(cases.len(), 2);
    assert!(cases.iter().all(|case| case.options.tolerance == Some(7)));
    assert_ne!(cases[0].path, cases[1].path);
}

#[gpu_leak_check]
#[test_case(1 => panics "zero" ; "on purpose")]
#[ignore = "fails on purpose"]
fn does_not_panic(number: u32) {
    assert!(number > 0, "zero");
}

#[gpu_leak_check]
#[test_case(1 => panics "on purpose" ; "with_text")]
#[test_case(2 => panics ; "any")]
#[ignore = "leaks on purpose"]
fn panics_and_leaks(number: u64) {
    static SOURCE: Source = Source::new("attribute", &[]);
    SOURCE.allocated(Place::named("attribute:0"), number, 8);
    panic!("on purpose");
}

/// `test_case` passes the attribute to each case before the runtime's attribute has made the test.
#[gpu_leak_check]
#[test_case(0 => panics "zero")]
#[test_case(1 => 1)]
#[tokio::test]
async fn outcomes_on_a_runtime(number: u32) -> u32 {
    assert!(number > 0, "zero");
    number
}

#[gpu_leak_check]
#[test_case(1 => panics "on purpose" ; "leaks")]
#[test_case(2 => panics "on purpose" ; "leaks too")]
#[tokio::test]
#[ignore = "leaks on purpose"]
async fn panics_on_a_runtime(number: u64) {
    panics_and_leaks(number);
}

#[test]
fn a_leak_fails_a_case_that_panics_as_it_should() {
    for case in [
        "panics_and_leaks::test_case_1_with_text",
        "panics_and_leaks::test_case_2_any",
        "panics_on_a_runtime::test_case_1_leaks",
        "panics_on_a_runtime::test_case_2_leaks_too",
    ] {
        let child = fails(&format!("attribute::test_case::{case}"));
        let reported = format!("{}{}", child.stdout, child.stderr);
        assert!(reported.contains("gpu leak: 1 allocation"), "{reported}");
    }
}

#[test]
fn a_missing_panic_fails() {
    let child = fails("attribute::test_case::does_not_panic::test_case_1_on_purpose");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(
        reported.contains("test did not panic as expected"),
        "{reported}"
    );
}
