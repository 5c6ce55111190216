//! The attribute on the `main` of a test target without libtest. The compiler does not treat such a
//! `main` as a test.

use gpu_leak_check::{gpu_leak_check, registry};

#[gpu_leak_check]
fn main() {
    assert!(registry::cases().is_empty(), "a program is not a test");
    assert_eq!(std::thread::current().name(), Some("main"));
}
