//! `#[test]` above the attribute: libtest has taken the function already, and the attribute cannot
//! see that it did. The second entry tells.

use gpu_leak_check::gpu_leak_check;

use super::case;

#[test]
#[gpu_leak_check]
#[ignore = "fails on purpose"]
fn below_test() {}

#[test]
fn the_case_is_there_once() {
    assert!(case("attribute::double_registration::below_test").ignored);
}
