//! The compiler's messages for each wrong use of the attribute: one message, at the right place.
//!
//! `TRYBUILD=overwrite cargo test --test ui` writes the `.stderr` files. They belong to the
//! toolchain that `rust-toolchain.toml` pins.
#![cfg(unix)]

use gpu_leak_tests::child::Run;

#[test]
fn every_wrong_use_has_one_clear_message() {
    let wrapper = concat!(env!("CARGO_MANIFEST_DIR"), "/ui/with-test.sh");
    let child = Run::of("the_compiler")
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .run();
    assert!(child.status.success(), "{}", child.stderr);
}

#[test]
#[ignore = "needs files to be compiled as tests"]
fn the_compiler() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
