//! Runs cargo-nextest on this program, without building anything.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::checked::{self, Checked};
use crate::child::{self, Child};

/// A run of nextest that has not been started yet, with a directory of its own.
#[derive(Debug)]
pub struct Nextest {
    directory: TempDir,
    command: Command,
}

impl Nextest {
    /// Prepares a run of the ignored tests that `filter` selects in this program, with the nextest
    /// configuration `config`. `target` is the test target of this program. If nextest is not
    /// installed, prints a message and returns `None`.
    ///
    /// # Panics
    ///
    /// Panics if cargo cannot describe this package.
    #[must_use]
    pub fn of_this_program(target: &str, filter: &str, config: &str) -> Option<Self> {
        if !is_installed() {
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let metadata = metadata();
        let config = format!(
            "{config}\n[store]\ndir = {:?}\n",
            directory.path().join("store")
        );
        for (name, content) in [
            ("cargo.json", metadata.to_string()),
            ("binaries.json", binaries(&metadata, target).to_string()),
            ("nextest.toml", config),
        ] {
            fs::write(directory.path().join(name), content).expect("a file");
        }
        let mut command = nextest();
        let file = |name| directory.path().join(name);
        command
            .args(["run", "--run-ignored=only", "--color=never"])
            .arg("--config-file")
            .arg(file("nextest.toml"))
            .arg("--cargo-metadata")
            .arg(file("cargo.json"))
            .arg("--binaries-metadata")
            .arg(file("binaries.json"))
            .args(["-E", filter])
            .env("GPU_LEAK_CHECK_OUTPUT", file("results"));
        Some(Self { directory, command })
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Runs the tests as if an archive of them had been unpacked in `elsewhere`, a copy of the
    /// workspace, with the program in a target directory there.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be copied.
    #[must_use]
    pub fn elsewhere(self, elsewhere: &Path) -> Self {
        let metadata = metadata();
        let target = Path::new(metadata["target_directory"].as_str().expect("a directory"));
        let program = env::current_exe().expect("the path of this program");
        let inside = program.strip_prefix(target).expect("built by cargo");
        let copy = elsewhere.join("target").join(inside);
        fs::create_dir_all(copy.parent().expect("a directory")).expect("a directory");
        if fs::hard_link(&program, &copy).is_err() {
            fs::copy(&program, &copy).expect("a copy");
        }
        self.arg("--workspace-remap")
            .arg(elsewhere)
            .arg("--target-dir-remap")
            .arg(elsewhere.join("target"))
    }

    /// The directory of this run, which contains nextest's store.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs the tests and waits until they end.
    ///
    /// # Panics
    ///
    /// Panics if nextest cannot be started, or what the checks wrote cannot be read.
    pub fn run(&mut self) -> Checked {
        let output = self.command.output().expect("nextest runs");
        checked::read(Child::from(output), &self.directory.path().join("results"))
    }
}

fn is_installed() -> bool {
    let version = nextest().arg("--version").output();
    let is_installed = version.is_ok_and(|version| version.status.success());
    if !is_installed {
        crate::skipped("cargo-nextest is not installed (https://nexte.st)");
    }
    is_installed
}

/// Returns cargo's description of this workspace.
fn metadata() -> Value {
    let metadata = Command::new(cargo())
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            // Excludes dependencies for other systems, which were never downloaded.
            "--filter-platform=host-tuple",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    let refusal = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "{refusal}");
    serde_json::from_slice(&metadata.stdout).expect("JSON")
}

/// Describes this program in the format of `cargo nextest list --list-type=binaries-only`.
fn binaries(metadata: &Value, target: &str) -> Value {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages
        .find(|package| package["name"] == env!("CARGO_PKG_NAME"))
        .expect("this package");
    let binary = env::current_exe().expect("the path of this program");
    let id = format!("{}::{target}", env!("CARGO_PKG_NAME"));
    let binary = json!({
        "binary-id": id,
        "binary-name": target,
        "package-id": package["id"],
        "kind": "test",
        "binary-path": binary,
        "build-platform": "target",
    });
    json!({
        "rust-build-meta": {
            "target-directory": metadata["target_directory"],
            "base-output-directories": ["debug"],
            "non-test-binaries": {},
            "linked-paths": [],
        },
        "rust-binaries": { id: binary },
    })
}

fn nextest() -> Command {
    let mut command = Command::new(cargo());
    command.arg("nextest");
    child::clean(&mut command);
    command
}

fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}
