//! rstest: every case is a separate test, and fixtures are created inside the check.

use std::cell::RefCell;

use gpu_leak_check::{gpu_leak_check, registry};
use rstest::{fixture, rstest};

thread_local!(static EVENTS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });

struct Device;

impl Drop for Device {
    fn drop(&mut self) {
        EVENTS.with_borrow_mut(|events| events.push("fixture dropped"));
    }
}

#[fixture]
fn device() -> Device {
    EVENTS.with_borrow_mut(|events| events.push("fixture created"));
    Device
}

#[gpu_leak_check(tolerance = 7)]
#[rstest]
#[case(1, 2)]
#[case::larger(10, 20)]
fn above(#[case] half: u32, #[case] whole: u32) {
    assert_eq!(half * 2, whole);
}

#[rstest]
#[case(1)]
#[case(2)]
#[gpu_leak_check]
fn below(#[case] number: u32) -> Result<(), String> {
    if number == 0 {
        Err("zero".to_owned())
    } else {
        Ok(())
    }
}

#[gpu_leak_check]
#[rstest]
fn with_a_fixture(device: Device) {
    EVENTS.with_borrow_mut(|events| events.push("body"));
    drop(device);
}

#[gpu_leak_check]
#[rstest]
#[case(3)]
#[tokio::test]
async fn of_a_runtime(#[case] number: u32) {
    tokio::task::yield_now().await;
    assert_eq!(number, 3);
}

#[gpu_leak_check]
#[rstest]
#[case(0)]
#[should_panic(expected = "divide by zero")]
fn panics(#[case] divisor: u32) {
    let _ = 1 / divisor;
}

#[gpu_leak_check]
#[rstest]
#[case::fine(1)]
#[should_panic(expected = "divide by zero")]
#[case::panics(0)]
fn panics_in_one_case(#[case] divisor: u32) {
    let _ = 1 / divisor;
}

#[test]
fn every_case_is_registered_with_the_options() {
    let mut cases = registry::cases();
    cases.retain(|case| case.name().starts_with("attribute::rstest::above"));
    let names: Vec<_> = cases.iter().map(|case| case.name()).collect();
    assert_eq!(
        names,
        [
            "attribute::rstest::above::case_1",
            "attribute::rstest::above::case_2_larger"
        ]
    );
    assert!(cases.iter().all(|case| case.options.tolerance == Some(7)));
}

#[test]
fn cases_of_every_order_are_registered_once() {
    for name in [
        "below::case_1",
        "below::case_2",
        "with_a_fixture",
        "of_a_runtime::case_1",
        "panics::case_1",
    ] {
        super::case(&format!("attribute::rstest::{name}"));
    }
}

#[test]
fn a_fixture_is_created_and_dropped_inside_the_body() {
    EVENTS.take();
    let _ = (super::case("attribute::rstest::with_a_fixture").body)();
    assert_eq!(
        EVENTS.take(),
        ["fixture created", "body", "fixture dropped"]
    );
}
