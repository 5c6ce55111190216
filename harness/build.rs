//! Sets a `cfg` for optimised builds, which determines which unwinder is faster.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(optimised)");
    if env::var_os("OPT_LEVEL").is_some_and(|level| level != "0") {
        println!("cargo::rustc-cfg=optimised");
    }
}
