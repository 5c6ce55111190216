//! Tests of `--strict`. A suite that contains every way in which something is not checked or does
//! not apply cannot pass, and the output names each of these ways.
#![cfg(unix)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{CliOutput, call, cargo_that_runs, command};

/// Writes a script in place of cargo. It runs each of the planted `tests` in a separate process,
/// continues if the process of a test ends before the test does, and succeeds as if no test had
/// failed.
fn cargo_that_runs_each(directory: &Path, tests: &[&str]) -> PathBuf {
    let this = env::current_exe().expect("this program");
    let tests: Vec<_> = tests
        .iter()
        .map(|test| format!("planted::{test}"))
        .collect();
    let lines = format!(
        "for test in {}; do '{}' --exact --ignored $test >/dev/null 2>&1; done\n\
         exit 0",
        tests.join(" "),
        this.display(),
    );
    cargo_that_runs(directory, &lines)
}

/// Runs `cargo gpu-leak test WORDS` over these tests.
fn tested(tests: &[&str], configuration: &str, words: &[&str]) -> CliOutput {
    tested_in(&mut command(), tests, configuration, words)
}

/// Runs `cargo gpu-leak test WORDS` over these tests with `command`, in which the caller may have
/// set further variables.
fn tested_in(
    command: &mut Command,
    tests: &[&str],
    configuration: &str,
    words: &[&str],
) -> CliOutput {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let file = directory.join("gpu-leak-check.toml");
    fs::write(&file, configuration).expect("a file");
    command
        .arg("test")
        .args(words)
        // The tests of this program run in the directory of their package.
        .arg("--workspace")
        .env("CARGO", cargo_that_runs_each(directory, tests))
        .env("GPU_LEAK_CHECK_OUTPUT", directory.join("runs"))
        .env("GPU_LEAK_CHECK_CONFIG", &file);
    call(command)
}

/// Returns the sentences about what is denied, in alphabetical order.
fn denied(reported: &CliOutput) -> Vec<&str> {
    let lines = reported.stderr.lines();
    let mut denied: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("denied: "))
        .collect();
    denied.sort_unstable();
    denied
}

const BLIND: [&str; 5] = [
    "allocates_beside_a_check",
    "ends_the_process",
    "frees_one_of_two_at_the_same_address",
    "has_a_budget_for_a_layer_that_nobody_reported",
    "gives_back",
];

#[test]
fn a_suite_with_every_way_to_be_blind_fails_under_strict_and_names_each() {
    let strict = tested(&BLIND, "", &["--strict"]);
    assert_eq!(strict.code, Some(1), "{strict:?}");
    let beginnings = [
        "aborted: planted::ends_the_process",
        "unchecked: planted::allocates_beside_a_check of ",
        "unmatched: planted::has_a_budget_for_a_layer_that_nobody_reported: max_allocated had no \
         effect, because nothing was allocated in the layer allocator:misspelt",
        "unmeasured: planted::frees_one_of_two_at_the_same_address: ",
    ];
    let denied = denied(&strict);
    assert_eq!(denied.len(), beginnings.len(), "{denied:#?}");
    for (sentence, beginning) in denied.into_iter().zip(beginnings) {
        assert!(sentence.starts_with(beginning), "{sentence}");
    }
    let chosen = tested(&BLIND, "", &["--strict", "--error-exitcode=23"]);
    assert_eq!(chosen.code, Some(23), "{chosen:?}");
    // A note says what cannot be known about an incomplete run.
    let in_file = "[[allow]]\nfn = \"nobody::calls_this\"\nreason = \"old\"\n";
    let incomplete = tested(&BLIND, in_file, &["--strict"]);
    let note = "note: unused entries in ";
    assert!(incomplete.stderr.contains(note), "{incomplete:?}");
}

/// Without `--strict`, only the test whose process ended before it did is a failure.
#[test]
fn each_blind_test_alone_passes_unless_strict_is_given() {
    for (test, code) in BLIND.into_iter().zip([1, 1, 3, 1, 0]) {
        let lax = tested(&[test, "gives_back"], "", &[]);
        let expected = i32::from(test == "ends_the_process");
        assert_eq!(lax.code, Some(expected), "{test}: {lax:?}");
        let strict = tested(&[test, "gives_back"], "", &["--strict"]);
        assert_eq!(strict.code, Some(code), "{test}: {strict:?}");
    }
}

/// nextest runs each test in its own process.
#[test]
fn a_test_without_the_attribute_is_denied_and_an_excluded_one_is_not() {
    for nextest in [false, true] {
        let mut command = command();
        if nextest {
            command.env("NEXTEST", "1");
        }
        let tests = ["allocates_beside_a_check", "is_excluded", "gives_back"];
        let strict = tested_in(&mut command, &tests, "", &["--strict"]);
        let [unchecked] = &denied(&strict)[..] else {
            panic!("nextest: {nextest}\n{strict:?}");
        };
        let expected = "unchecked: planted::allocates_beside_a_check of ";
        assert!(unchecked.starts_with(expected), "{unchecked}");
        assert_eq!(strict.code, Some(1), "{strict:?}");
    }
}

#[test]
fn entries_and_overrides_that_match_nothing_fail_under_strict_and_are_named() {
    let file = "[run]\nstrict = true\n\n\
        [[override]]\ntest = \"nope*\"\ntolerance = 1\n\n\
        [[allow]]\nat = \"nobody::calls_this\"\ntests = [\"*::gives_back\"]\nreason = \"old\"\n";
    let strict = tested(&["gives_back"], file, &[]);
    assert_eq!(strict.code, Some(1), "{strict:?}");
    let denied = denied(&strict);
    let [allow, overriding] = &denied[..] else {
        panic!("{denied:#?}");
    };
    assert!(
        allow.starts_with("unmatched: ")
            && allow.ends_with(
                "(at = \"nobody::calls_this\" in *::gives_back; reason: old) matched nothing in this run: \
                 remove the entry"
            ),
        "{allow}"
    );
    assert!(
        overriding.starts_with("unmatched: the override at ") && overriding.ends_with("(nope*)"),
        "{overriding}"
    );
}

/// The test may be ignored or need another feature, so another run may need the entry.
#[test]
fn an_entry_of_a_test_that_did_not_run_is_noted_and_fails_nothing() {
    let file = "[run]\nstrict = true\n\n[[allow]]\nat = \"f\"\n\
        tests = [\"*::gives_back\", \"slow_leak\"]\nreason = \"old\"\n";
    let strict = tested(&["gives_back"], file, &[]);
    assert_eq!(strict.code, Some(0), "{strict:?}");
    let note = "gpu-leak-check.toml:4 matched nothing, but slow_leak did not run: ";
    assert!(strict.stderr.contains(note), "{strict:?}");
}

/// Without `--strict`, an entry that matches nothing is noted, but not if only part of the suite
/// ran, because that proves nothing.
#[test]
fn an_entry_that_matches_nothing_in_the_whole_suite_is_noted() {
    let file = "[[allow]]\nfn = \"nobody::calls_this\"\nreason = \"old\"\n";
    let noted = |reported: &CliOutput| {
        assert_eq!(reported.code, Some(0), "{reported:?}");
        let note = "note: unmatched: ";
        reported
            .stderr
            .lines()
            .filter(|it| it.starts_with(note))
            .count()
    };
    let whole: [&[&str]; 2] = [&[], &["--", "--include-ignored"]];
    for words in whole {
        let reported = tested(&["gives_back"], file, words);
        assert_eq!(noted(&reported), 1, "{reported:?}");
    }
    let part = tested(&["gives_back"], file, &["-p", "optim"]);
    assert_eq!(noted(&part), 0, "{part:?}");
    let strict = tested(
        &["gives_back"],
        file,
        &["--strict", "--", "--include-ignored"],
    );
    assert_eq!(strict.code, Some(1), "{strict:?}");
    assert_eq!(denied(&strict).len(), 1, "{strict:?}");
}

/// A bound far above what the suite leaves hides new leaks. It causes a note, but no failure.
#[test]
fn a_bound_far_above_what_the_whole_suite_left_is_noted() {
    let entry = |tests: &str, count: u64, bytes: u64| {
        format!(
            "[[allow]]\nfn = \"*keep*\"\ntests = [{tests}]\nup_to = {bytes}\nup_to_count = {count}\n\
             reason = \"old\"\n"
        )
    };
    let notes = |tests: &str, bounds: (u64, u64), words: &[&str]| {
        let file = entry(tests, bounds.0, bounds.1);
        let reported = tested(&["keeps_a_tensor", "gives_back"], &file, words);
        assert_eq!(reported.code, Some(0), "{reported:?}");
        let lines = reported.stderr.lines();
        let notes = lines.filter_map(|line| line.strip_prefix("note: "));
        let notes: Vec<_> = notes.filter(|it| it.contains(".toml:1")).collect();
        notes.join("\n")
    };
    let keeps = "'planted::keeps_a_tensor'";
    let slack = "gpu-leak-check.toml:1 allows up to 7 allocations and 8.00 KiB, but no test left more than 1 \
                 and 1.00 KiB: lower up_to_count to 1 and up_to to 1024";
    for words in [&[][..], &["--strict"]] {
        let noted = notes(keeps, (7, 8192), words);
        assert!(noted.ends_with(slack), "{noted}");
    }
    let tight: [(u64, u64); 2] = [(1, 1024), (1, 1500)];
    for bounds in tight {
        assert_eq!(notes(keeps, bounds, &[]), "");
    }
    let both = "'planted::keeps_a_tensor', 'planted::gives_back'";
    let remedy = "from its `tests`";
    let clean = format!("has nothing to allow in planted::gives_back: remove this name {remedy}");
    let noted = notes(both, (1, 1024), &[]);
    assert!(noted.ends_with(&clean), "{noted}");
    let noted = notes(both, (7, 8192), &[]);
    assert!(noted.ends_with(&format!("{slack}; it {clean}")), "{noted}");
    let noted = notes(&format!("{both}, '*::gives_back'"), (1, 1024), &[]);
    let clean = "has nothing to allow in planted::gives_back, *::gives_back: remove these names";
    assert!(noted.ends_with(&format!("{clean} {remedy}")), "{noted}");
    // A part of the suite proves nothing about an entry, and neither does a test that did not run.
    assert_eq!(notes(keeps, (7, 8192), &["-p", "optim"]), "");
    assert_eq!(
        notes("'planted::keeps_a_tensor', 'gone'", (7, 8192), &[]),
        ""
    );
}

/// The file of a package applies to its tests alone, and instead of the workspace's.
#[test]
fn a_package_s_own_file_is_judged_in_a_run_of_its_workspace() {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = directory.path().canonicalize().expect("it exists");
    let write = |name: &str, text: &str| fs::write(workspace.join(name), text).expect("a file");
    fs::create_dir_all(workspace.join("alpha/src")).expect("a directory");
    let package = "[package]\nname = 'alpha'\nversion = '0.1.0'\nedition = '2024'";
    write(
        "Cargo.toml",
        "[workspace]\nmembers = ['alpha']\nresolver = '3'",
    );
    write("alpha/Cargo.toml", package);
    write("alpha/src/lib.rs", "");
    let names_the_test = "[[override]]\ntest = 'planted::gives_back'\ntolerance = 1";
    write("gpu-leak-check.toml", names_the_test);
    let names_no_test = "[[override]]\ntest = 'gone'\ntolerance = 1\n";
    let unmatched = |place: &str, pattern: &str| {
        format!("unmatched: the override at {place} matches no test of this run ({pattern})")
    };
    // The package's file can also make the run strict.
    let strict = "[run]\nstrict = true\n\n";
    for (beginning, line, words) in [("", 1, &["--strict"][..]), (strict, 4, &[])] {
        write(
            "alpha/gpu-leak-check.toml",
            &format!("{beginning}{names_no_test}"),
        );
        let mut command = command();
        command
            .arg("test")
            .args(words)
            .current_dir(&workspace)
            .env("CARGO", cargo_that_runs_each(&workspace, &["gives_back"]))
            .env("CARGO_MANIFEST_DIR", workspace.join("alpha"))
            .env("GPU_LEAK_CHECK_OUTPUT", workspace.join("runs"));
        let reported = call(&mut command);
        let expected = [
            unmatched(&format!("alpha/gpu-leak-check.toml:{line}"), "gone"),
            unmatched("gpu-leak-check.toml:1", "planted::gives_back"),
        ];
        assert_eq!(denied(&reported), expected, "{reported:?}");
        assert_eq!(reported.code, Some(1), "{reported:?}");
    }
}

/// Without arguments, cargo runs only the tests of the package in whose directory it starts.
#[test]
fn an_entry_is_not_unmatched_if_another_package_s_tests_did_not_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let workspace = directory.path().canonicalize().expect("it exists");
    let write = |name: &str, text: &str| fs::write(workspace.join(name), text).expect("a file");
    let members = "[workspace]\nmembers = ['alpha', 'beta']\nresolver = '3'";
    write("Cargo.toml", members);
    for name in ["alpha", "beta"] {
        fs::create_dir_all(workspace.join(name).join("src")).expect("a directory");
        let package = format!("[package]\nname = '{name}'\nedition = '2024'");
        write(&format!("{name}/Cargo.toml"), &package);
        write(&format!("{name}/src/lib.rs"), "");
    }
    let of_beta = "[[override]]\ntest = 'beta::*'\ntolerance = 1";
    write("gpu-leak-check.toml", of_beta);
    let unmatched = |place: &str, words: &[&str]| {
        let mut command = command();
        command
            .args(["test", "--strict"])
            .args(words)
            .current_dir(workspace.join(place))
            .env("CARGO", cargo_that_runs_each(&workspace, &["gives_back"]))
            .env("CARGO_MANIFEST_DIR", workspace.join("alpha"))
            .env("GPU_LEAK_CHECK_OUTPUT", workspace.join("runs"));
        denied(&call(&mut command)).len()
    };
    assert_eq!(unmatched("alpha", &[]), 0);
    assert_eq!(unmatched("alpha", &["--workspace"]), 1);
    assert_eq!(unmatched("", &[]), 1);
}
