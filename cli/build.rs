//! Builds the library that `exec` preloads and the harness that it loads. Both are embedded in the
//! command. This script also finds the page that `explain` reads.
//!
//! cargo has no stable way to depend on the shared library of another package, since artifact
//! dependencies are unstable. So this script runs cargo itself. It uses a separate target
//! directory, because the outer cargo has locked the usual one. With a normal dependency, cargo
//! would build each library only once, but the path of the library would depend on the undocumented
//! layout of the target directory, and `cargo check` would not build it.
//!
//! The harness is optimised only if the command is. The sources are found through a build
//! dependency, so that the script also works for a command installed from a registry.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that the outer cargo or clippy sets for this package only. The inner cargo must not
/// inherit them.
const NOT_INHERITED: [&str; 7] = [
    "CARGO_BUILD_TARGET",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_PRIMARY_PACKAGE",
    "CLIPPY_ARGS",
    "CARGO_TARGET_DIR",
    "RUSTDOCFLAGS",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = variable("TARGET");
    println!("cargo::rustc-env=GPU_LEAK_TARGET={target}");
    println!("cargo::rustc-env=GPU_LEAK_MESSAGES={}", messages());
    // This library is stripped, since reports do not show its own frames. It unwinds, so that a
    // panic can be caught at its boundary. It must not be unloaded while its signal handlers are
    // installed and its thread runs.
    let harness = Library {
        manifest: gpu_leak_inject::MANIFEST,
        file: "libgpu_leak_inject.so",
        profile: &["panic=\"unwind\""],
        flags: "-C link-arg=-Wl,-z,nodelete",
        static_unwinder: false,
    };
    embed(&harness, "GPU_LEAK_INJECT_LIBRARY", &target);
    // This library is loaded into every shell and compiler that a program starts, together with the
    // libraries that it needs. So the unwinder is linked statically, and the C library is the only
    // dependency.
    let preloaded = Library {
        manifest: gpu_leak_preload::MANIFEST,
        file: "libgpu_leak_preload.so",
        profile: &[
            "panic=\"abort\"",
            "lto=\"fat\"",
            "codegen-units=1",
            "opt-level=\"s\"",
        ],
        flags: "-C link-arg=-Wl,-z,nodelete",
        static_unwinder: true,
    };
    embed(&preloaded, "GPU_LEAK_PRELOAD_LIBRARY", &target);
}

/// Returns the path of the page that `explain` reads, relative to the source of `explain`.
/// `messages.md` is a link to the page, so that the published package contains the page. In a
/// checkout without symbolic links, which is usual on Windows, `messages.md` is a file that
/// contains the path of the page.
fn messages() -> String {
    let page = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("messages.md");
    let text = fs::read_to_string(page).unwrap_or_default();
    let page = match text.lines().count() {
        1 => text.trim(),
        _ => "messages.md",
    };
    format!("../../{page}")
}

/// A library that the command contains.
struct Library {
    manifest: &'static str,
    file: &'static str,
    /// Profile settings, in addition to those that both libraries share.
    profile: &'static [&'static str],
    flags: &'static str,
    /// Whether to link the unwinder statically if the system's compiler provides an archive of it.
    static_unwinder: bool,
}

/// Builds a library and sets the variable that holds the path of its file, whose bytes the command
/// includes.
fn embed(library: &Library, path_variable: &str, target: &str) {
    let out = PathBuf::from(variable("OUT_DIR"));
    let embedded = out.join(library.file);
    println!("cargo::rustc-env={path_variable}={}", embedded.display());
    // With another C library, the harness cannot intercept calls. docs.rs has no network access and
    // does not run the programs that it builds.
    let is_glibc = variable("CARGO_CFG_TARGET_OS") == "linux"
        && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    if !is_glibc || env::var_os("DOCS_RS").is_some() {
        write(&embedded, &[]);
        return;
    }
    // All builds of the outer cargo share this directory, including those of clippy.
    let directory = out.ancestors().nth(3).unwrap_or(&out).join("carried");
    let flag = library.static_unwinder.then(|| static_unwinder(&out));
    let is_built = flag.is_some_and(|flag| build(library, target, &directory, &flag));
    assert!(
        is_built || build(library, target, &directory, ""),
        "failed to build {}",
        library.manifest
    );
    let built = directory.join(target).join("release").join(library.file);
    let bytes = fs::read(&built).unwrap_or_else(|why| panic!("{}: {why}", built.display()));
    write(&embedded, &bytes);
    watch_sources(&built.with_extension("d"), library.manifest);
}

/// Returns the flag that makes the linker use the archive of the unwinder instead of the shared
/// library that the standard library requests.
fn static_unwinder(out: &Path) -> String {
    let directory = out.join("unwinder");
    let script = directory.join("libgcc_s.so");
    let written =
        fs::create_dir_all(&directory).and_then(|()| fs::write(&script, "INPUT(-lgcc_eh)\n"));
    written.unwrap_or_else(|why| panic!("{}: {why}", script.display()));
    format!(" -L native={}", directory.display())
}

/// Builds a library with an additional flag, and returns whether that succeeded.
fn build(library: &Library, target: &str, directory: &Path, flag: &str) -> bool {
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["rustc", "--release", "--lib", "--quiet"])
        // The manifest does not set the crate type, since the outer cargo builds the package too.
        .args(["--crate-type", "cdylib"])
        .args(["--manifest-path", library.manifest])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(directory)
        .env("RUSTFLAGS", format!("{}{flag}", library.flags));
    let settings = ["strip=\"symbols\"", "debug=false"];
    let unoptimised = (variable("PROFILE") != "release").then_some("opt-level=0");
    // The settings of the library come last and take precedence.
    for setting in settings.iter().chain(&unoptimised).chain(library.profile) {
        cargo.args(["--config", &format!("profile.release.{setting}")]);
    }
    for patch in patches(library.manifest) {
        cargo.args(["--config", &patch]);
    }
    for name in NOT_INHERITED {
        cargo.env_remove(name);
    }
    cargo.status().is_ok_and(|status| status.success())
}

/// Returns settings that replace packages of this version with those unpacked next to the command.
/// `cargo publish` verifies the command before the packages on which the libraries depend are
/// published, and only the outer cargo knows where they are at that time. Other builds need no such
/// settings: from a registry, the sources of the libraries are themselves next to the command, and
/// in the repository, nothing is unpacked there.
fn patches(manifest: &str) -> Vec<String> {
    let command = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let beside = command.parent().unwrap_or(&command);
    if Path::new(manifest).ancestors().nth(2) == Some(beside) {
        return Vec::new();
    }
    let version = format!("-{}", variable("CARGO_PKG_VERSION"));
    let entries = fs::read_dir(beside).into_iter().flatten().flatten();
    let unpacked = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(&version)?.to_owned();
        (name.starts_with("gpu-leak-") && entry.path().is_dir()).then(|| (name, entry.path()))
    });
    unpacked
        .map(|(name, path)| format!("patch.crates-io.{name}.path={path:?}"))
        .collect()
}

/// Makes cargo run this script again when a source of the library, a manifest or a lock file
/// changes. The dependency file lists the sources of all path dependencies.
fn watch_sources(dependencies: &Path, manifest: &str) {
    let listed = fs::read_to_string(dependencies).unwrap_or_default();
    let sources = listed.split_once(": ").map_or("", |(_, sources)| sources);
    let sources = sources.replace("\\ ", "\0");
    for source in sources.split_whitespace() {
        println!("cargo::rerun-if-changed={}", source.replace('\0', " "));
    }
    println!("cargo::rerun-if-changed={manifest}");
    let locks = Path::new(manifest)
        .ancestors()
        .map(|directory| directory.join("Cargo.lock"));
    for lock in locks.filter(|lock| lock.is_file()) {
        println!("cargo::rerun-if-changed={}", lock.display());
    }
}

/// Writes the file only if its contents have changed, since writing it makes cargo rebuild the
/// command.
fn write(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return;
    }
    fs::write(path, bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}
