//! Decides whether this crate defines symbols, and sets `cfg(interpose)` if so.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(interpose, gpu_leak_interpose_off)");
    if interposes() {
        println!("cargo::rustc-cfg=interpose");
    }
}

/// Whether this crate defines symbols. It does so only if the definitions after ours can be found
/// and no other library has to be the first to see a thread start.
fn interposes() -> bool {
    let cfg = |name: &str| env::var(format!("CARGO_CFG_{name}"));
    let is = |name: &str, value: &str| cfg(name).is_ok_and(|known| known == value);
    let features = cfg("TARGET_FEATURE").unwrap_or_default();

    is("TARGET_OS", "linux")
        && is("TARGET_ENV", "gnu")
        // `dlsym` and the trampolines are written in assembler.
        && (is("TARGET_ARCH", "x86_64") || is("TARGET_ARCH", "aarch64"))
        && is("TARGET_POINTER_WIDTH", "64")
        && is("TARGET_ENDIAN", "little")
        // A static C library has only one definition of each function, so there is no next one.
        && !features.split(',').any(|name| name == "crt-static")
        // Sanitizers intercept `pthread_create` themselves, and some of them also intercept calls
        // through pointers. Cargo sets this variable for each sanitizer that rustc uses. Miri has
        // its own versions of `dlsym` and `pthread_create`.
        && cfg("SANITIZE").is_err()
        && cfg("MIRI").is_err()
        // Users can switch interposition off with RUSTFLAGS="--cfg gpu_leak_interpose_off".
        && cfg("GPU_LEAK_INTERPOSE_OFF").is_err()
}
