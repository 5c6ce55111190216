//! Tests of `explain`, `doctor`, `completions` and the help.

use std::fs;

#[cfg(target_os = "linux")]
use gpu_leak_tests::fake::Fake;

use crate::support::{call, command, gpu_leak};

#[test]
fn a_known_term_is_explained_and_an_unknown_one_refused_with_similar_ones() {
    let known = gpu_leak(["explain", "retained"]);
    assert_eq!(known.code, Some(0), "{known:?}");
    assert!(known.stdout.contains("reserved_tolerance"), "{known:?}");
    for words in [
        &["explain", "held", "by"][..],
        &["explain", "held by"],
        &["explain", "not measured"],
        &["explain", "first", "use"],
    ] {
        let spaced = gpu_leak(words);
        assert_eq!(spaced.code, Some(0), "{words:?}: {spaced:?}");
    }
    let unknown = gpu_leak(["explain", "unheard-functions"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("similar: unheard-function"),
        "{unknown:?}"
    );
}

#[test]
fn the_doctor_reports_what_it_finds_and_exits_with_3_without_a_gpu() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gpu.toml");
    fs::write(&file, "[[allow]]\nfn = \"a\"\nreason = \"b\"\n").expect("a file");
    let asked =
        |file: &std::path::Path| call(command().arg("doctor").env("GPU_LEAK_CHECK_CONFIG", file));
    let healthy = asked(&file);
    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        assert!(healthy.stdout.contains("cuda:0"), "{healthy:?}");
    } else {
        assert_eq!(healthy.code, Some(3), "{healthy:?}");
        assert!(
            healthy.stdout.contains("checks cannot see a CUDA GPU here"),
            "{healthy:?}"
        );
        assert!(healthy.stdout.contains("no-gpu"), "{healthy:?}");
    }
    assert!(healthy.stdout.contains("with 1 entry"), "{healthy:?}");
    assert!(
        healthy.stdout.contains("GPU_LEAK_CHECK_CONFIG="),
        "{healthy:?}"
    );

    fs::write(&file, "[chekc]\n").expect("a file");
    let wrong = asked(&file);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stdout.contains("unknown key `chekc`"), "{wrong:?}");

    let mistyped = call(command().arg("doctor").env("GPU_LEAK_CHECK_ONLEAK", "warn"));
    assert_eq!(mistyped.code, Some(2), "{mistyped:?}");
    assert!(
        mistyped.stdout.contains("variable GPU_LEAK_CHECK_ONLEAK"),
        "{mistyped:?}"
    );
}

/// Runs the self-test on the machine that the stand-in for the driver simulates, and returns its
/// lines.
#[cfg(target_os = "linux")]
fn self_tested(fake: &Fake) -> (Option<i32>, Vec<String>) {
    let reported = call(command().args(["doctor", "--self-test"]).envs(fake.env()));
    let lines = reported.stdout.lines().map(str::to_owned);
    (reported.code, lines.collect())
}

/// One leak of each kind is planted through the available driver, and found.
#[cfg(target_os = "linux")]
#[test]
fn the_self_test_finds_each_kind_that_it_plants_and_says_what_it_could_not_try() {
    let fake = Fake::new().fault("fail:cuArrayCreate_v2=801");
    let (code, lines) = self_tested(&fake);
    for expected in [
        "observed allocator: block: found: 4.00 KiB device memory, allocator:self-test",
        "CUDA: linear: found: 4.00 KiB device memory, linear",
        "CUDA: managed: found: 4.00 KiB device memory, managed",
        "CUDA: stream-ordered: found: 4.00 KiB device memory, stream-ordered",
        "CUDA: pinned: found: 4.00 KiB host memory, pinned",
        "CUDA: registered: found: 4.00 KiB host memory, registered",
        "CUDA: array: not tried: cuArrayCreate_v2 returned 801",
        "CUDA: stream: found: 1 stream",
        "CUDA: event: found: 1 event",
        "CUDA: graph handle: found: 1 graph",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected}: {lines:#?}"
        );
    }
    let pitched = "CUDA: pitched: found: ";
    assert!(
        lines.iter().any(|line| line.starts_with(pitched)),
        "{lines:#?}"
    );
    assert_eq!(code, Some(0), "{lines:#?}");
    // On a machine with a Vulkan driver, its leaks are found as well.
    let mut vulkan = lines.iter().filter(|line| line.starts_with("Vulkan: "));
    match std::env::var_os("VULKAN_TESTS").is_some_and(|value| value == "require") {
        true => assert_eq!(
            vulkan.filter(|line| line.contains(": found: ")).count(),
            5,
            "{lines:#?}"
        ),
        false => assert!(vulkan.all(|line| !line.contains("NOT FOUND")), "{lines:#?}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_self_test_without_a_device_is_not_a_success() {
    // The simulated machine has no Vulkan driver.
    let without = |fake: &Fake| {
        let mut command = command();
        command
            .args(["doctor", "--self-test"])
            .envs(fake.env())
            .env("VK_ICD_FILENAMES", "/nowhere")
            .env("VK_DRIVER_FILES", "/nowhere");
        call(&mut command)
    };
    let none = without(&Fake::new().devices(0));
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(
        none.stdout
            .contains("CUDA: not tried: cuInit returned 100\n"),
        "{none:?}"
    );
    let verdict = "neither CUDA nor Vulkan could be tried here";
    assert!(none.stdout.contains(verdict), "{none:?}");
}

#[test]
fn every_subcommand_has_help_and_all_but_one_an_example() {
    for name in [
        "test",
        "nextest",
        "run",
        "bench",
        "report",
        "diff",
        "allow",
        "explain",
        "doctor",
        "completions",
    ] {
        let help = gpu_leak([name, "--help"]);
        assert_eq!(help.code, Some(0), "{name}");
        assert!(help.stdout.contains("Example"), "{name}: {}", help.stdout);
    }
    let script = gpu_leak(["completions", "bash"]);
    assert!(script.stdout.contains("cargo-gpu-leak"), "{script:?}");
}

#[test]
fn an_unknown_word_exits_with_2() {
    assert_eq!(gpu_leak(["reprot"]).code, Some(2));
    assert_eq!(gpu_leak(["report", "--format=docx"]).code, Some(2));
}
