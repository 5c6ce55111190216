//! Tests of formats for other programs, on the results of real checks.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{call, checked, checked_in, checking, command, gpu_leak};

/// Returns the snapshot of the run or recording at `path`.
fn snapshot(path: &Path, out: &Path) -> Value {
    let words = ["report", "--format=snapshot", "--out"].map(AsRef::as_ref);
    let reported = gpu_leak(words.into_iter().chain([out.as_os_str(), path.as_os_str()]));
    assert_eq!(reported.code, Some(1), "{reported:?}");
    let pickle = fs::read(out).expect("a file");
    serde_pickle::from_slice(&pickle, serde_pickle::DeOptions::new()).expect("a pickle")
}

fn sum(values: &Value, of: &str) -> u64 {
    let values = values.as_array().expect("a list").iter();
    values.filter_map(|value| value[of].as_u64()).sum()
}

#[test]
fn a_recordings_snapshot_has_live_memory_and_earlier_events() {
    let base = tempfile::tempdir().expect("a directory");
    let recording = base.path().join("gpu.jsonl");
    let status = checking(base.path(), "r", "keeps_two_tensors")
        .env("GPU_LEAK_CHECK_RECORD", &recording)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("this program runs");
    let snapshot = snapshot(&recording, &base.path().join("memory.pickle"));
    // The body and the confirming run each left 1 KiB and 4 KiB.
    let segments = &snapshot["segments"];
    assert_eq!(sum(segments, "allocated_size"), 2 * (1024 + 4096));
    for segment in segments.as_array().expect("segments") {
        let total = segment["total_size"].as_u64().expect("bytes");
        assert_eq!(sum(&segment["blocks"], "size"), total);
        assert_eq!(total % 512, 0, "{segment}");
    }
    let trace = snapshot["device_traces"][0].as_array().expect("a trace");
    let of = |action: &str| {
        trace
            .iter()
            .filter(|entry| entry["action"] == action)
            .count()
    };
    assert_eq!(of("alloc") - of("free_completed"), 4);
    assert_eq!(of("free_requested"), of("free_completed"));
    assert!(of("segment_alloc") > 0);
    let times: Vec<_> = trace
        .iter()
        .filter_map(|entry| entry["time_us"].as_u64())
        .collect();
    assert!(
        times.is_sorted() && times[0] > 1_600_000_000_000_000,
        "{times:?}"
    );
    let names = trace
        .iter()
        .flat_map(|entry| entry["frames"].as_array().expect("frames"));
    let names: Vec<_> = names.filter_map(|frame| frame["name"].as_str()).collect();
    assert!(
        names.iter().any(|name| name.contains("keeps_two_tensors")),
        "{names:?}"
    );
}

#[test]
fn a_runs_snapshot_has_the_findings_of_its_checks() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor", "gives_back"]);
    let snapshot = snapshot(&run, &base.path().join("memory.pickle"));
    assert_eq!(sum(&snapshot["segments"], "allocated_size"), 1024);
}

#[test]
fn a_recording_is_judged_again_for_every_other_format() {
    let base = tempfile::tempdir().expect("a directory");
    let recording = base.path().join("gpu.jsonl");
    let status = checking(base.path(), "r", "keeps_a_tensor")
        .env("GPU_LEAK_CHECK_RECORD", &recording)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.expect("this program runs");
    let reported = gpu_leak(["report".as_ref(), recording.as_os_str()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(
        reported.stdout.contains("1 checked: 1 leaked"),
        "{reported:?}"
    );
}

#[test]
fn a_flame_graph_is_as_wide_as_the_bytes() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_two_tensors"]);
    let words = [
        "report".as_ref(),
        "--format=flamegraph".as_ref(),
        run.as_os_str(),
    ];
    let reported = gpu_leak(words);
    assert!(reported.stdout.contains("<svg"), "{}", reported.stdout);
    assert!(
        reported.stdout.contains("(5,120 bytes, 100%)"),
        "{}",
        reported.stdout
    );
}

#[test]
fn programs_of_the_same_name_are_several_suites() {
    let base = tempfile::tempdir().expect("a directory");
    let run = |package: &str| {
        let package = [("CARGO_PKG_NAME", package)];
        checked_in(
            &base.path().join(package[0].1),
            "r",
            &["gives_back"],
            None,
            &package,
        )
    };
    let runs = [run("optim"), run("train")];
    let words = ["report", "--format=junit"].map(AsRef::as_ref);
    let runs = runs.iter().map(|run| run.as_os_str());
    let junit = gpu_leak(words.into_iter().chain(runs)).stdout;
    for suite in ["optim::", "train::"] {
        assert_eq!(
            junit.matches(&format!("<testsuite name=\"{suite}")).count(),
            1,
            "{junit}"
        );
    }
}

/// The directory of a CI runner may be a link to another disk.
#[cfg(unix)]
#[test]
fn a_repository_that_is_named_through_a_link_is_found() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["keeps_a_tensor"]);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("its parent");
    let link = base.path().join("link");
    let around = workspace.parent().expect("its parent");
    std::os::unix::fs::symlink(around, &link).expect("a link");
    let mut report = command();
    report.args(["report", "--format=github"]).arg(&run);
    let reported = call(report.env("GITHUB_WORKSPACE", &link)).stdout;
    let name = workspace.file_name().expect("a name").to_string_lossy();
    let file = format!("file={name}/cli/tests/planted.rs,");
    assert!(reported.contains(&file), "{reported}");
}

#[cfg(unix)]
#[test]
fn a_hostile_path_is_text_on_the_terminal() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let base = tempfile::tempdir().expect("a directory");
    let name = OsStr::from_bytes(b"\x1b[2J\xe2\x80\xae\xff\n::error::x");
    let missing = base.path().join(name);
    let reported = gpu_leak(["report".as_ref(), missing.as_os_str()]);
    assert_eq!(reported.code, Some(2), "{reported:?}");
    let run = checked(base.path(), "r", &["gives_back"]);
    let directory = base.path().join(name);
    fs::create_dir(&directory).expect("a directory");
    fs::copy(crate::support::file_of(&run), directory.join("a.jsonl")).expect("a file");
    fs::write(directory.join("b.jsonl"), b"\xff\0\n").expect("a file");
    let there = gpu_leak(["report".as_ref(), directory.as_os_str()]);
    assert!(there.stdout.contains("1 checked: 1 clean"), "{there:?}");
    for text in [reported.stderr, there.stdout] {
        assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
        assert!(text.contains("u{1b}"), "{text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("::error")),
            "{text:?}"
        );
    }
}

#[test]
fn a_warning_fails_if_it_is_denied() {
    let base = tempfile::tempdir().expect("a directory");
    let run = checked(base.path(), "r", &["only_warns"]);
    let reported = gpu_leak(["report".as_ref(), run.as_os_str()]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(
        reported.stdout.contains("leaked (only warned): "),
        "{reported:?}"
    );
    let reported = gpu_leak(["report".as_ref(), run.as_os_str(), "--deny=warned".as_ref()]);
    assert_eq!(reported.code, Some(1), "{reported:?}");
    assert!(
        reported.stderr.contains("but `on_leak` is \"warn\""),
        "{reported:?}"
    );
}
