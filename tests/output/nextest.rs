//! What cargo-nextest makes of a leak: the `JUnit` file of continuous integration carries the story.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::{Device, Tensor};
use serde_json::json;

/// The profile that this repository's continuous integration uses.
const CONFIG: &str = include_str!("../../.config/nextest.toml");
const PLANTED: &str = "output::nextest::keeps_a_tensor";

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_tensor() -> gpu_leak_kernels::Result<()> {
    let device = Device::embedded()?;
    std::mem::forget(Tensor::zeros([256], &device)?);
    Ok(())
}

#[test]
#[expect(clippy::print_stdout, reason = "says why nothing was tested")]
fn the_message_in_junit_is_the_headline_and_the_text_has_the_report() {
    if !nextest()
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        println!("skipped: cargo-nextest is not installed (https://nexte.st)");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = run_planted(folder.path());
    let story = String::from_utf8_lossy(&run.stderr);
    assert_eq!(
        run.status.code(),
        Some(100),
        "nextest found no failing test\n{story}"
    );

    let junit = fs::read_to_string(folder.path().join("store/ci/junit.xml")).expect("a JUnit file");
    let junit = roxmltree::Document::parse(&junit).expect("XML");
    let failure = junit
        .descendants()
        .find(|node| node.has_tag_name("failure"))
        .expect("a failure");
    let message = failure.attribute("message").unwrap_or_default();
    assert!(
        message.starts_with(&format!("thread '{PLANTED}' panicked at ")),
        "{message}"
    );
    let headline =
        "gpu leak: 1 allocation, 1.00 KiB on embedded:0, taken at tests/output/nextest.rs:";
    assert!(message.contains(headline), "{message}");
    let text = failure.text().unwrap_or_default();
    for part in [
        "leaked: 1.00 KiB device memory",
        "taken here",
        "difference",
        "help: ",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// Runs the planted test by nextest with this very program: nothing is built.
fn run_planted(folder: &Path) -> Output {
    let metadata = Command::new(cargo())
        .args([
            "metadata",
            "--format-version=1",
            "--offline",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(
        metadata.status.success(),
        "{}",
        String::from_utf8_lossy(&metadata.stderr)
    );
    let config = format!("[store]\ndir = {:?}\n\n{CONFIG}", folder.join("store"));
    let files = [
        ("cargo.json", metadata.stdout.clone()),
        ("binaries.json", binaries(&metadata.stdout).into_bytes()),
        ("nextest.toml", config.into_bytes()),
    ];
    for (name, content) in files {
        fs::write(folder.join(name), content).expect("a file");
    }
    nextest()
        .args(["run", "--profile=ci", "--run-ignored=only", "--color=never"])
        .arg("--config-file")
        .arg(folder.join("nextest.toml"))
        .arg("--cargo-metadata")
        .arg(folder.join("cargo.json"))
        .arg("--binaries-metadata")
        .arg(folder.join("binaries.json"))
        .args(["-E", &format!("test(={PLANTED})")])
        .output()
        .expect("nextest runs")
}

/// This program in the words of `cargo nextest list --list-type=binaries-only`.
fn binaries(metadata: &[u8]) -> String {
    let metadata: serde_json::Value = serde_json::from_slice(metadata).expect("JSON");
    let package = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == env!("CARGO_PKG_NAME"))
        .expect("this package");
    let binary = env::current_exe().expect("the path of this program");
    json!({
        "rust-build-meta": {
            "target-directory": metadata["target_directory"],
            "base-output-directories": ["debug"],
            "non-test-binaries": {},
            "linked-paths": [],
        },
        "rust-binaries": {
            "gpu-leak-tests::main": {
                "binary-id": "gpu-leak-tests::main",
                "binary-name": "main",
                "package-id": package["id"],
                "kind": "test",
                "binary-path": binary,
                "build-platform": "target",
            },
        },
    })
    .to_string()
}

fn nextest() -> Command {
    let mut command = Command::new(cargo());
    command.arg("nextest");
    for (name, _) in env::vars_os() {
        // Of a nextest that runs this test, or settings of the checks.
        let name = name.to_string_lossy();
        if name.starts_with("NEXTEST") || name.starts_with("GPU_LEAK_CHECK") {
            command.env_remove(&*name);
        }
    }
    command
}

fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}
