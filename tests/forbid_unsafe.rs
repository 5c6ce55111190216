//! A crate without `unsafe` can check its tests.
#![forbid(unsafe_code)]

use gpu_leak_check::{gpu_leak_check, registry};

#[gpu_leak_check(tolerance = "1 KiB")]
#[test]
fn a_crate_that_forbids_unsafe_code_registers_its_tests() {
    assert_eq!(registry::cases().len(), 1);
}
