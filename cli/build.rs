//! Builds the library that `exec` has preloaded, and the harness that it loads, for the command to carry as
//! bytes.
//!
//! cargo has no stable way to depend on another package's shared library (artifact dependencies
//! are nightly's), so this runs cargo itself: with a target folder of its own, because the outer cargo
//! has locked the other one, and optimised even where the command is not, because what the library costs
//! is paid in programs that are not ours; only a little then, for its developers wait for it. A normal
//! dependency on it would be built once with the rest; but then
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
    println!("cargo::rerun-if-changed=build.rs");
    let target = variable("TARGET");
    println!("cargo::rustc-env=GPU_LEAK_TARGET={target}");
    // Of its own frames reports show nothing. Unwinding stays: a panic must not leave it. Whoever opens it
    // by hand may close it, with our handlers still installed and our thread waiting.
    let harness = Library {
        manifest: gpu_leak_inject::MANIFEST,
        file: "libgpu_leak_inject.so",
        profile: &["panic=\"unwind\""],
        flags: "-C link-arg=-Wl,-z,nodelete",
        unwinder_inside: false,
    };
    carry(&harness, "GPU_LEAK_INJECT_LIBRARY", &target);
    // It is loaded into every shell and compiler that a program starts, and each library that it needs
    // with it: what unwinds is taken in, and the C library alone is left.
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
        unwinder_inside: true,
    };
    carry(&preloaded, "GPU_LEAK_PRELOAD_LIBRARY", &target);
}

/// A library that the command carries.
struct Library {
    manifest: &'static str,
    file: &'static str,
    /// Beside what both have.
    profile: &'static [&'static str],
    flags: &'static str,
    /// Whether what unwinds is to be in it, where this system's compiler has that as an archive.
    unwinder_inside: bool,
}

/// Builds a library; the variable tells the command where its bytes are.
fn carry(library: &Library, variable_of_it: &str, target: &str) {
    let out = PathBuf::from(variable("OUT_DIR"));
    let carried = out.join(library.file);
    println!("cargo::rustc-env={variable_of_it}={}", carried.display());
    // docs.rs has no network, and nobody runs what it builds.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || env::var_os("DOCS_RS").is_some() {
        write(&carried, &[]);
        return;
    }
    // One for all of the outer cargo's ways to build: its linter runs this script anew, for one.
    let folder = out.ancestors().nth(3).unwrap_or(&out).join("carried");
    let inside = library.unwinder_inside.then(|| unwinder(&out));
    let inside = inside.is_some_and(|flag| builds(library, target, &folder, &flag));
    assert!(
        inside || builds(library, target, &folder, ""),
        "{} cannot be built",
        library.manifest
    );
    let built = folder.join(target).join("release").join(library.file);
    let bytes = fs::read(&built).unwrap_or_else(|why| panic!("{}: {why}", built.display()));
    write(&carried, &bytes);
    watch_sources(&built.with_extension("d"), library.manifest);
}

/// The flag with which the linker finds an archive under the name of the shared library that unwinds: the
/// standard library asks for that by its name.
fn unwinder(out: &Path) -> String {
    let folder = out.join("unwinder");
    let script = folder.join("libgcc_s.so");
    let written =
        fs::create_dir_all(&folder).and_then(|()| fs::write(&script, "INPUT(-lgcc_eh)\n"));
    written.unwrap_or_else(|why| panic!("{}: {why}", script.display()));
    format!(" -L native={}", folder.display())
}

/// Whether cargo builds a library, with this flag more.
fn builds(library: &Library, target: &str, folder: &Path, flag: &str) -> bool {
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["rustc", "--release", "--lib", "--quiet"])
        // Not said in the manifest: shared libraries have one name, whatever they are built for, and the
        // outer cargo builds the package too.
        .args(["--crate-type", "cdylib"])
        .args(["--manifest-path", library.manifest])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(folder)
        .env("RUSTFLAGS", format!("{}{flag}", library.flags));
    let settings = ["strip=\"symbols\"", "debug=false"];
    let less = (variable("PROFILE") != "release").then_some("opt-level=1");
    // What a library asks for itself comes last, and holds.
    for setting in settings.iter().chain(&less).chain(library.profile) {
        cargo.args(["--config", &format!("profile.release.{setting}")]);
    }
    for name in NOT_HANDED_ON {
        cargo.env_remove(name);
    }
    cargo.status().is_ok_and(|status| status.success())
}

/// Runs again when a source of the library, or what says how it is built, changes: its dependency
/// file names the sources of every package with a path.
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
        .map(|folder| folder.join("Cargo.lock"));
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
