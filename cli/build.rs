//! Builds the library that `exec` has preloaded, for the command to carry as bytes.
//!
//! cargo has no stable way to depend on another package's shared library (artifact dependencies
//! are nightly's), so this runs cargo itself: with a target folder of its own, for the outer cargo
//! holds the lock on its own one, and always optimised, for what the library costs is paid in
//! programs that are not ours. A normal dependency on it would be built once with the rest; but then
//! the library would have to be looked for in a folder whose layout is cargo's own affair, and it
//! is not there under `cargo check`. The sources are found through a build dependency, so a command
//! from a registry is built like one in this tree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the outer cargo, and clippy under it, have set for this package and not for that one.
const NOT_HANDED_ON: [&str; 7] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_PRIMARY_PACKAGE",
    "CLIPPY_ARGS",
    "CARGO_TARGET_DIR",
    "RUSTDOCFLAGS",
];

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let carried = out.join("library");
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=GPU_LEAK_INJECT_LIBRARY={}",
        carried.display()
    );
    let target = variable("TARGET");
    println!("cargo::rustc-env=GPU_LEAK_TARGET={target}");
    // docs.rs has no network, and nobody runs what it builds.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || env::var_os("DOCS_RS").is_some() {
        write(&carried, &[]);
        return;
    }
    let folder = out.join("target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--release", "--lib", "--quiet"])
        .args(["--manifest-path", gpu_leak_inject::MANIFEST])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&folder)
        // Of its own frames reports show nothing. Unwinding stays: a panic must not leave it.
        .args(["--config", "profile.release.strip=\"symbols\""])
        .args(["--config", "profile.release.debug=false"])
        .args(["--config", "profile.release.panic=\"unwind\""])
        // Whoever opens it by hand may close it, with our handlers still installed and our thread waiting.
        .env("RUSTFLAGS", "-C link-arg=-Wl,-z,nodelete");
    for name in NOT_HANDED_ON {
        cargo.env_remove(name);
    }
    let built = cargo.status().is_ok_and(|status| status.success());
    assert!(built, "{cargo:?} failed");
    let built = folder.join(target).join("release");
    let library = built.join("libgpu_leak_inject.so");
    let bytes = fs::read(&library).unwrap_or_else(|why| panic!("{}: {why}", library.display()));
    write(&carried, &bytes);
    watch_sources(&built.join("libgpu_leak_inject.d"));
}

/// Runs again when a source of the library, or what says how it is built, changes: its dependency
/// file names the sources of every package with a path.
fn watch_sources(dependencies: &Path) {
    let listed = fs::read_to_string(dependencies).unwrap_or_default();
    let sources = listed.split_once(": ").map_or("", |(_, sources)| sources);
    let sources = sources.replace("\\ ", "\0");
    for source in sources.split_whitespace() {
        println!("cargo::rerun-if-changed={}", source.replace('\0', " "));
    }
    println!("cargo::rerun-if-changed={}", gpu_leak_inject::MANIFEST);
    let manifest = Path::new(gpu_leak_inject::MANIFEST);
    let locks = manifest.ancestors().map(|folder| folder.join("Cargo.lock"));
    for lock in locks.filter(|lock| lock.is_file()) {
        println!("cargo::rerun-if-changed={}", lock.display());
    }
}

/// Leaves the file as it is where nothing has changed: the command is built again otherwise.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return;
    }
    fs::write(path, bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
