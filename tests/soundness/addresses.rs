//! The addresses of allocators with one address space for all their devices.

use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_check::{Place, gpu_leak_check};

use super::allocators::{give_back, report_at};
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
