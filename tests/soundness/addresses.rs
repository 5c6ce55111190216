//! The addresses of allocators with one address space for all their devices.

use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_check::{Place, gpu_leak_check};

use super::allocators::{give_back, lose_reported, report_at};
use super::{GIB, assert_leaked, assert_verdict, run};

fn device(number: u32) -> Place {
    Place::named(&format!("reporting:{number}"))
}

#[gpu_leak_check(confirm = false)]
#[ignore = "frees one of two on purpose"]
#[test]
fn frees_one_of_two_devices_at_an_address() {
    report_at(device(0), 0x1000, GIB);
    report_at(device(1), 0x1000, 64);
    give_back(0x1000);
}

#[test]
fn a_free_that_may_mean_either_of_two_devices_is_inconclusive() {
    let test = "frees_one_of_two_devices_at_an_address";
    let checked = run(&format!("addresses::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Inconclusive);
    let reason = report.reason.as_ref().expect("a reason");
    assert!(
        reason.what.contains("address") || reason.remedy.contains("address"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_two_devices_at_an_address() {
    report_at(device(0), 0x1000, GIB);
    report_at(device(1), 0x1000, 64);
}

#[test]
fn memory_live_at_one_address_on_two_devices_is_a_leak_of_both() {
    let test = "keeps_two_devices_at_an_address";
    let checked = run(&format!("addresses::{test}"));
    assert_leaked(&checked, test, GIB + 64);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_in_one_allocator_and_frees_what_another_one_never_had() {
    lose_reported(64);
    give_back(0x10);
}

/// The addresses of different allocators have nothing to do with each other.
#[test]
fn a_free_of_an_unknown_address_does_not_concern_the_leaks_of_another_allocator() {
    let test = "leaks_in_one_allocator_and_frees_what_another_one_never_had";
    let checked = run(&format!("addresses::{test}"));
    assert_leaked(&checked, test, 64);
}
