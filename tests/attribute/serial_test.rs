//! `serial_test`: a test takes its lock inside the check, so it never waits for the gate while it
//! holds the lock.

use gpu_leak_check::gpu_leak_check;
use serial_test::{is_locked_serially, serial};

#[gpu_leak_check]
#[test]
#[serial(attribute)]
fn above() {
    assert!(is_locked_serially(Some("attribute")));
}

#[gpu_leak_check]
#[serial(attribute)]
#[test]
fn above_with_test_last() {
    assert!(is_locked_serially(Some("attribute")));
}

#[serial(attribute)]
#[gpu_leak_check]
#[test]
fn below() {
    assert!(is_locked_serially(Some("attribute")));
}

#[test]
fn the_body_of_a_case_takes_and_releases_the_lock() {
    for name in ["above", "above_with_test_last", "below"] {
        let case = super::case(&format!("attribute::serial_test::{name}"));
        let _ = (case.body)();
        assert!(!is_locked_serially(Some("attribute")), "{name}");
    }
}
