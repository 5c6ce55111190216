//! A leak under cargo-nextest: the `JUnit` file for continuous integration contains the
//! report.

use std::fs;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::{Device, Tensor};
use gpu_leak_tests::nextest::Nextest;

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
fn the_message_in_junit_is_the_headline_and_the_text_has_the_report() {
    let filter = format!("test(={PLANTED})");
    let Some(nextest) = Nextest::of_this_program("main", &filter, CONFIG) else {
        return;
    };
    let mut nextest = nextest.arg("--profile=ci");
    let run = nextest.run();
    let output = run.output();
    assert_eq!(
        run.child.status.code(),
        Some(100),
        "no failing test\n{output}"
    );

    let junit =
        fs::read_to_string(nextest.directory().join("store/ci/junit.xml")).expect("a JUnit file");
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
        "gpu leak: 1 allocation, 1.00 KiB on embedded:0, allocated at tests/output/nextest.rs:";
    assert!(message.contains(headline), "{message}");
    let text = failure.text().unwrap_or_default();
    for part in [
        "leaked: 1.00 KiB device memory",
        "allocated here",
        "difference",
        "help: ",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}
