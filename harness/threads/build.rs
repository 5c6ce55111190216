//! Decides whether threads inherit: whether this crate may stand in front of `pthread_create`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(inherit, gpu_leak_check_plain_threads)");
    if inherits() {
        println!("cargo::rustc-cfg=inherit");
    }
}

/// Only where the next `pthread_create` can be found behind ours, and nothing else needs to be the
/// first to see a thread begin.
fn inherits() -> bool {
    let cfg = |name: &str| env::var(format!("CARGO_CFG_{name}")).unwrap_or_default();
    let is_set = |name: &str| env::var_os(format!("CARGO_CFG_{name}")).is_some();
    let has_feature = |feature| cfg("TARGET_FEATURE").split(',').any(|name| name == feature);

    cfg("TARGET_OS") == "linux"
        && cfg("TARGET_ENV") == "gnu"
        // A static libc has one definition and no `dlsym` to find it by.
        && !has_feature("crt-static")
        // Sanitizers intercept `pthread_create` themselves; Miri has its own.
        && !is_set("SANITIZE")
        && !is_set("MIRI")
        // The switch: RUSTFLAGS="--cfg gpu_leak_check_plain_threads".
        && !is_set("GPU_LEAK_CHECK_PLAIN_THREADS")
}
