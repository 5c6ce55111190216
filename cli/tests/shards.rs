//! Tests of several directories, attempts and rounds that are read as one run, and of runs that
//! have not ended or are damaged.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{CliOutput, call, checked, checking, command, file_of, gpu_leak};

fn report(directories: &[&Path]) -> CliOutput {
    gpu_leak(
        ["report".as_ref()]
            .into_iter()
            .chain(directories.iter().map(|it| it.as_os_str())),
    )
}

/// Checks `test` as attempt `number` of nextest in `round` of a run.
fn attempt(base: &Path, test: &str, number: u32, round: &str) {
    attempt_of("5f2c-aa", base, test, number, round);
}

/// Checks `test` as attempt `number` of nextest in `round` of the run to which nextest gave the ID
/// `run`.
fn attempt_of(run: &str, base: &Path, test: &str, number: u32, round: &str) {
    let status = checking(base, "r", test)
        .env("NEXTEST_RUN_ID", run)
        .env("NEXTEST", "1")
        .env("NEXTEST_BINARY_ID", "cli::main")
        .env("NEXTEST_TEST_NAME", test)
        .env("NEXTEST_ATTEMPT", number.to_string())
        .env("NEXTEST_STRESS_CURRENT", round)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("this program runs");
}

/// nextest runs an archive in a copy of the workspace, and sets `CARGO_MANIFEST_DIR` to the
/// directory of the package in that copy.
#[test]
fn an_archive_writes_its_results_to_the_workspace_in_which_it_runs() {
    let there = tempfile::tempdir().expect("a directory");
    let package = there.path().join("cli");
    fs::create_dir(&package).expect("a directory");
    fs::write(there.path().join("Cargo.toml"), "[workspace]\n").expect("a file");
    let base = Path::new("target/archive-elsewhere");
    let mut command = checking(base, "r", "gives_back");
    let ran = command.env("CARGO_MANIFEST_DIR", package).output();
    assert!(ran.expect("this program runs").status.success());
    file_of(&there.path().join(base).join("r"));
}

#[test]
fn a_test_that_passes_when_tried_again_is_flaky_and_not_a_finding() {
    let base = tempfile::tempdir().expect("a directory");
    attempt(base.path(), "leaks_at_first", 1, "none");
    attempt(base.path(), "leaks_at_first", 2, "none");
    let reported = report(&[&base.path().join("r")]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(
        reported.stdout.contains("1 checked: 1 clean"),
        "{reported:?}"
    );
    let flaky = "flaky: planted::leaks_at_first: leaked in attempt 1, clean in attempt 2";
    assert!(reported.stdout.contains(flaky), "{reported:?}");
}

#[test]
fn a_test_that_leaks_at_each_attempt_leaks_once() {
    let base = tempfile::tempdir().expect("a directory");
    attempt(base.path(), "keeps_a_tensor", 1, "none");
    attempt(base.path(), "keeps_a_tensor", 2, "none");
    let reported = report(&[&base.path().join("r")]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(
        reported.stdout.contains("1 checked: 1 leaked"),
        "{reported:?}"
    );
    assert!(
        reported.stdout.contains("leaked: 1.00 KiB device memory"),
        "{reported:?}"
    );
    assert!(!reported.stdout.contains("flaky"), "{reported:?}");
}

/// The jobs of a matrix may run on one machine and give their runs the same name.
#[test]
fn an_attempt_of_another_job_replaces_none_of_this_job() {
    let base = tempfile::tempdir().expect("a directory");
    let (one, two) = (base.path().join("one"), base.path().join("two"));
    attempt_of("5f2c-aa", &one, "leaks_at_first", 1, "none");
    attempt_of("5f2c-bb", &two, "leaks_at_first", 2, "none");
    let reported = report(&[&one.join("r"), &two.join("r")]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(!reported.stdout.contains("flaky"), "{reported:?}");
}

#[test]
fn each_round_of_a_stress_run_counts() {
    let base = tempfile::tempdir().expect("a directory");
    for round in ["1", "2", "3"] {
        attempt(base.path(), "gives_back", 1, round);
    }
    let reported = report(&[&base.path().join("r")]);
    assert!(
        reported.stdout.contains("3 checked: 3 clean"),
        "{reported:?}"
    );
}

#[test]
fn one_test_in_two_shards_is_two_checks_and_one_finding() {
    let base = tempfile::tempdir().expect("a directory");
    let one = checked(base.path(), "one", &["keeps_a_tensor"]);
    let two = checked(base.path(), "two", &["keeps_a_tensor"]);
    let reported = report(&[&one, &two]);
    assert!(
        reported.stdout.contains("2 checked: 2 leaked"),
        "{reported:?}"
    );
    assert!(
        reported
            .stdout
            .contains("leaked: 2 × 1.00 KiB device memory"),
        "{reported:?}"
    );
}

#[test]
fn a_copy_of_a_shard_counts_once() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "one", &["keeps_a_tensor"]);
    let copy = base.path().join("download");
    fs::create_dir(&copy).expect("a directory");
    fs::copy(file_of(&run), copy.join("main-1.jsonl")).expect("a copy");
    let reported = report(&[&run, &copy]);
    assert!(
        reported.stdout.contains("1 checked: 1 leaked"),
        "{reported:?}"
    );
}

#[test]
fn a_recording_with_two_paths_counts_once() {
    let name = "tests/recordings/h200-keeps_a_tensor.jsonl";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let direct = path.canonicalize().expect("a recording");
    let counted = report(&[&path, &direct]);
    assert!(
        counted.stdout.contains("1 checked: 1 leaked"),
        "{counted:?}"
    );
    let base = tempfile::tempdir().expect("a directory");
    let snapshot = |paths: &[&Path]| {
        let out = base.path().join("memory.pickle");
        let mut report = command();
        report.args(["report", "--format=snapshot", "--out"]);
        call(report.arg(&out).args(paths));
        fs::read(&out).expect("a snapshot")
    };
    assert!(snapshot(&[&path, &direct]) == snapshot(&[&path]));
}

/// A directory may be uploaded before the tests have ended and again afterwards.
#[test]
fn the_longest_copy_of_a_file_counts() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["gives_back", "keeps_a_tensor"]);
    let text = fs::read_to_string(file_of(&run)).expect("the file");
    let until_the_leak = text
        .split_inclusive('\n')
        .take_while(|line| !line.contains("keeps_a_tensor"));
    let earlier = base.path().join("earlier");
    fs::create_dir(&earlier).expect("a directory");
    fs::write(
        earlier.join("main-1.jsonl"),
        until_the_leak.collect::<String>(),
    )
    .expect("a copy");
    let alone = report(&[&earlier]);
    assert!(alone.stdout.contains("1 checked: 1 clean"), "{alone:?}");
    for order in [[&earlier, &run], [&run, &earlier]] {
        let reported = report(&order.map(|it| &**it));
        assert_eq!(reported.code, Some(1), "{reported:?}");
        assert!(
            reported.stdout.contains("2 checked: 1 clean, 1 leaked"),
            "{reported:?}"
        );
    }
}

#[test]
fn a_check_that_is_still_running_is_not_aborted() {
    let base = tempfile::tempdir().expect("a directory");
    let mut child = checking(base.path(), "r", "waits")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program runs");
    let stdout = BufReader::new(child.stdout.take().expect("its output"));
    let mut lines = stdout.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "under way"));
    let run = base.path().join("r");
    let meanwhile = report(&[&run]);
    assert_eq!(meanwhile.code, Some(3), "{meanwhile:?}");
    assert!(!meanwhile.stdout.contains("aborted"), "{meanwhile:?}");
    assert!(
        meanwhile.stdout.contains("still running: planted::waits ("),
        "{meanwhile:?}"
    );

    drop(child.stdin.take());
    assert_eq!(lines.find(|line| line.contains("FAILED")), None);
    child.wait().expect("its end");
    let after = report(&[&run]);
    assert_ne!(after.code, Some(1), "{after:?}");
    assert!(!after.stdout.contains("still running: "), "{after:?}");
}

#[test]
fn a_killed_process_is_reported_as_aborted_and_its_verdicts_stand() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor", "ends_the_process"]);
    let reported = report(&[&run]);
    assert!(
        reported
            .stdout
            .contains("aborted: planted::ends_the_process"),
        "{reported:?}"
    );
    assert_eq!(reported.code, Some(1), "{reported:?}");
}

/// Replaces the first `of` in the run file with `damage`.
fn damaged(run: &Path, of: &str, damage: &str) {
    let file = file_of(run);
    let text = fs::read_to_string(&file).expect("the file");
    assert!(text.contains(of), "{text}");
    fs::write(file, text.replacen(of, damage, 1)).expect("the file");
}

#[test]
fn a_damaged_first_line_loses_no_verdict() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    damaged(&run, "{\"record\":\"header\"", "\0\0garbage");
    let reported = report(&[&run]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(
        reported.stdout.contains("1 checked: 1 leaked"),
        "{reported:?}"
    );
    assert!(reported.stdout.contains("has no header"), "{reported:?}");
}

/// Returns the files that earlier releases wrote. They never change. A release that adds to the
/// format adds a file.
fn older() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema-1");
    let files = fs::read_dir(directory).expect("a directory").flatten();
    files.map(|file| file.path()).collect()
}

#[test]
fn files_of_older_releases_are_read() {
    let files = older();
    assert!(!files.is_empty());
    for file in files {
        crate::support::published::assert_published(&file);
        let reported = report(&[&file]);
        assert_eq!(reported.code, Some(1), "{reported:?}");
        assert!(
            reported.stdout.contains("3 checked: 1 clean, 2 leaked"),
            "{reported:?}"
        );
        assert!(!reported.stdout.contains("note:"), "{reported:?}");
    }
}
