//! What the attribute registers about its test, such as its path, its origin and its options.

use std::time::Duration;

use gpu_leak_check::case::{Case, ShouldPanic};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::options::OnLeak;

fn case(name: &str) -> &'static Case {
    super::case(&format!("attribute::facts::{name}"))
}

#[gpu_leak_check]
#[test]
fn a_test_is_registered_under_its_path() {
    let case = case("a_test_is_registered_under_its_path");
    assert_eq!(
        case.path,
        "main::attribute::facts::a_test_is_registered_under_its_path"
    );
}

#[gpu_leak_check]
fn a_test_attribute_is_added_where_none_is() {
    assert!(!case("a_test_attribute_is_added_where_none_is").ignored);
}

const LINE_BEFORE: u32 = line!();
#[gpu_leak_check]
#[test]
fn the_origin_is_the_function_and_not_the_attribute() {
    let origin = case("the_origin_is_the_function_and_not_the_attribute").origin;
    assert_eq!(origin.line, LINE_BEFORE + 3);
    assert_eq!(origin.column, 4);
    assert_eq!(origin.file, file!());
    assert_eq!(origin.package, Some("gpu-leak-tests"));
    assert_eq!(origin.crate_name, Some("main"));
    assert_eq!(origin.bin_name, None);
    assert!(origin.integration);
}

#[gpu_leak_check]
#[test]
fn without_options_every_field_is_unset() {
    let options = case("without_options_every_field_is_unset").options;
    assert_eq!(options.tolerance, None);
    assert_eq!(options.reserved_tolerance, None);
    assert_eq!(options.confirm, None);
    assert_eq!(options.on_leak, None);
    assert_eq!(options.settle, None);
    assert!(options.unchecked_if.is_none());
}

const PAGE: u64 = 4096;

#[gpu_leak_check(
    tolerance = "1.5 MiB",
    reserved_tolerance = 2 * PAGE,
    confirm = false,
    on_leak = "warn",
    settle = "0.5s"
)]
#[test]
fn options_arrive_as_written() {
    let options = case("options_arrive_as_written").options;
    assert_eq!(options.tolerance, Some(1_572_864));
    assert_eq!(options.reserved_tolerance, Some(8192));
    assert_eq!(options.confirm, Some(false));
    assert_eq!(options.on_leak, Some(OnLeak::Warn));
    assert_eq!(options.settle, Some(Duration::from_millis(500)));
}

#[gpu_leak_check(unchecked_if(cfg!(unix) && always(), "shows the option"))]
#[test]
fn a_condition_is_evaluated_when_it_is_needed() {
    let options = case("a_condition_is_evaluated_when_it_is_needed").options;
    let unchecked_if = options.unchecked_if.expect("the option");
    assert!((unchecked_if.condition)());
    assert_eq!(unchecked_if.reason, "shows the option");
}

fn always() -> bool {
    true
}

#[gpu_leak_check]
#[test]
#[ignore = "another test checks that this is registered"]
fn ignored() {}

#[gpu_leak_check]
#[test]
#[should_panic(expected = "on purpose")]
fn panics() {
    panic!("on purpose");
}

#[test]
fn ignore_and_should_panic_are_facts() {
    assert!(case("ignored").ignored);
    assert_eq!(case("ignored").should_panic, None);
    assert!(!case("panics").ignored);
    assert_eq!(
        case("panics").should_panic,
        Some(ShouldPanic {
            expected: Some("on purpose"),
            by_libtest: false,
        })
    );
}

#[gpu_leak_check]
#[cfg_attr(unix, ignore = "another test checks that this is registered")]
#[cfg_attr(not(unix), should_panic)]
#[test]
fn conditional() {}

#[gpu_leak_check]
#[cfg(any())]
#[test]
fn absent() {
    this_is_not_compiled();
}

#[test]
fn conditional_attributes_are_resolved_before_the_facts_are_written() {
    assert_eq!(case("conditional").ignored, cfg!(unix));
    assert_eq!(case("conditional").should_panic.is_some(), !cfg!(unix));
    assert!(
        gpu_leak_check::registry::cases()
            .iter()
            .all(|case| case.name() != "attribute::facts::absent")
    );
}
