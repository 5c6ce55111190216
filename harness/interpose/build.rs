//! Decides which symbols this crate defines: `interpose` for any at all, which is `pthread_create`;
//! `lookups` for `dlsym` as well, which is written for two processors.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(interpose, lookups, gpu_leak_interpose_off)");
    if interposes() {
        println!("cargo::rustc-cfg=interpose");
        if matches!(cfg("TARGET_ARCH").as_str(), "x86_64" | "aarch64")
            && cfg("TARGET_POINTER_WIDTH") == "64"
            && cfg("TARGET_ENDIAN") == "little"
        {
            println!("cargo::rustc-cfg=lookups");
        }
    }
}

fn cfg(name: &str) -> String {
    env::var(format!("CARGO_CFG_{name}")).unwrap_or_default()
}

/// Only if the next definition can be found behind ours, and nothing else must be the first to see
/// a thread begin.
fn interposes() -> bool {
    let is_set = |name: &str| env::var_os(format!("CARGO_CFG_{name}")).is_some();
    let features = cfg("TARGET_FEATURE");

    cfg("TARGET_OS") == "linux"
        && cfg("TARGET_ENV") == "gnu"
        // A static libc has one definition of each, and no next one.
        && !features.split(',').any(|name| name == "crt-static")
        // Sanitizers intercept `pthread_create` themselves, and some of them call through
        // pointers; cargo reports each one that rustc uses. Miri has its own versions of both.
        && !is_set("SANITIZE")
        && !is_set("MIRI")
        // The switch: RUSTFLAGS="--cfg gpu_leak_interpose_off".
        && !is_set("GPU_LEAK_INTERPOSE_OFF")
}
