//! `explain`, `doctor`, `completions`, and the help.

use std::fs;

use crate::support::{command, gpu_leak, told};

#[test]
fn a_known_term_is_explained_and_an_unknown_one_refused_with_similar_ones() {
    let known = gpu_leak(["explain", "retained"]);
    assert_eq!(known.code, Some(0), "{known:?}");
    assert!(known.stdout.contains("reserved_tolerance"), "{known:?}");
    let unknown = gpu_leak(["explain", "unheard-functions"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(
        unknown.stderr.contains("similar: unheard-function"),
        "{unknown:?}"
    );
}

#[test]
fn the_doctor_says_what_is_here_and_ends_with_3_where_nothing_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gpu.toml");
    fs::write(&file, "[[allow]]\nfn = \"a\"\nreason = \"b\"\n").expect("a file");
    let asked =
        |file: &std::path::Path| told(command().arg("doctor").env("GPU_LEAK_CHECK_CONFIG", file));
    let healthy = asked(&file);
    if fs::exists("/dev/nvidiactl").is_ok_and(|there| there) {
        assert!(healthy.stdout.contains("cuda:0"), "{healthy:?}");
    } else {
        assert_eq!(healthy.code, Some(3), "{healthy:?}");
        assert!(
            healthy.stdout.contains("checks cannot see a GPU here"),
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
    assert!(wrong.stdout.contains("unknown field `chekc`"), "{wrong:?}");

    let mistyped = told(command().arg("doctor").env("GPU_LEAK_CHECK_ONLEAK", "warn"));
    assert_eq!(mistyped.code, Some(2), "{mistyped:?}");
    assert!(mistyped.stdout.contains("ONLEAK is"), "{mistyped:?}");
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
fn a_wrong_word_ends_with_2() {
    assert_eq!(gpu_leak(["reprot"]).code, Some(2));
    assert_eq!(gpu_leak(["report", "--format=docx"]).code, Some(2));
}
