//! The compiler's messages for wrong uses of the attribute: one for each, at the right place.
//!
//! `TRYBUILD=overwrite cargo test -p gpu-leak-ui` writes the `.stderr` files. Their contents depend
//! on the toolchain, which `rust-toolchain.toml` pins.
#![cfg(unix)]

use std::env;
use std::process::Command;

#[test]
fn every_wrong_use_has_one_clear_message() {
    let wrapper = concat!(env!("CARGO_MANIFEST_DIR"), "/with-test.sh");
    let this = env::current_exe().expect("the path of this program");
    let status = Command::new(this)
        .args(["the_compiler", "--exact", "--ignored", "--nocapture"])
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .status();
    assert!(status.expect("a child").success());
}

#[test]
#[ignore = "needs files to be compiled as tests"]
fn the_compiler() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
