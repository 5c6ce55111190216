use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{
    KEPT, MARKER, RunDirectory, file_name, run_file_name, run_files, run_name, start_time,
};

fn run(base: &Path, name: &str) -> RunDirectory {
    RunDirectory {
        base: base.to_owned(),
        run: name.to_owned(),
    }
}

/// Creates a run that is `age` seconds old, and returns its name.
fn old_run(base: &Path, age: u64) -> String {
    let name = format!("run-{age}");
    run(base, &name).create_file("train", 1).unwrap();
    let then = SystemTime::now() - Duration::from_secs(age);
    File::open(base.join(&name))
        .unwrap()
        .set_modified(then)
        .unwrap();
    name
}

fn names(base: &Path) -> Vec<String> {
    let entries = fs::read_dir(base).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_newest_ten_runs_stay() {
    let base = tempfile::tempdir().unwrap();
    // The oldest run is created first. No run is removed before there are too many.
    for age in (1..=KEPT as u64).rev() {
        old_run(base.path(), age * 100);
    }
    assert_eq!(names(base.path()).len(), KEPT);
    run(base.path(), "now").create_file("train", 1).unwrap();
    let left = names(base.path());
    assert_eq!(left.len(), KEPT);
    assert!(!left.contains(&"run-1000".to_owned()), "{left:?}");
    assert!(left.contains(&"now".to_owned()), "{left:?}");
}

#[test]
fn nothing_is_removed_that_is_not_a_run() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join(MARKER), "").unwrap();
    fs::write(outside.path().join("theirs.jsonl"), "").unwrap();
    std::os::unix::fs::symlink(outside.path(), base.path().join("link")).unwrap();
    fs::create_dir(base.path().join("theirs")).unwrap();
    fs::write(base.path().join("theirs/notes.jsonl"), "").unwrap();
    fs::write(base.path().join("file"), "").unwrap();
    let kept = old_run(base.path(), 9_000);
    fs::write(base.path().join(&kept).join("notes.md"), "").unwrap();
    for age in 1..=2 * KEPT as u64 {
        old_run(base.path(), age);
    }
    let left = names(base.path());
    for name in ["link", "theirs", "file", &kept] {
        assert!(left.contains(&name.to_owned()), "{name} of {left:?}");
    }
    assert!(outside.path().join("theirs.jsonl").is_file());
    assert!(base.path().join("theirs/notes.jsonl").is_file());
    assert!(base.path().join(&kept).join("notes.md").is_file());
}

#[test]
fn processes_of_a_run_share_a_directory_but_no_file() {
    let base = tempfile::tempdir().unwrap();
    let directory = run(base.path(), "now");
    let paths = [1, 2, 2].map(|pid| directory.create_file("train", pid).unwrap());
    let names = paths.map(|path| path.file_name().unwrap().to_owned().into_string().unwrap());
    assert_eq!(names, ["train-1.jsonl", "train-2.jsonl", "train-2-2.jsonl"]);
}

#[test]
fn nothing_is_written_through_a_link() {
    let base = tempfile::tempdir().unwrap();
    let theirs = base.path().join("theirs");
    fs::write(&theirs, "precious").unwrap();
    let directory = base.path().join("now");
    fs::create_dir(&directory).unwrap();
    for name in [MARKER, "train-1.jsonl"] {
        std::os::unix::fs::symlink(&theirs, directory.join(name)).unwrap();
    }
    let path = run(base.path(), "now").create_file("train", 1).unwrap();
    assert_eq!(path, directory.join("train-1-2.jsonl"));
    assert_eq!(fs::read_to_string(theirs).unwrap(), "precious");
}

#[test]
fn a_run_has_the_name_that_the_environment_sets() {
    let variables = |known: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = known.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let ours = ("GPU_LEAK_CHECK_RUN", "../nightly 7");
    let nextests = ("NEXTEST_RUN_ID", "5f2c-aa");
    let both: &'static [_] = Box::leak(Box::new([nextests, ours]));
    assert_eq!(run_name(variables(both)), "_._nightly_7-b5c429a1bb35435e");
    assert_eq!(run_name(variables(&both[..1])), "5f2c-aa");
}

#[test]
fn programs_that_one_process_started_are_one_run() {
    let name = run_name(|_| None);
    assert_eq!(name, run_name(|_| None));
    let parent = std::os::unix::process::parent_id();
    assert!(name.starts_with(&format!("{parent}-")), "{name}");
}

#[test]
fn the_name_of_a_process_cannot_shift_the_fields() {
    let stat = "12 (a) b) S 1 12 12 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 2";
    assert_eq!(start_time(stat), Some(987_654));
    assert_eq!(start_time(""), None);
}

#[test]
fn any_name_becomes_a_plain_file_name() {
    for (name, file) in [
        ("train-0.1_a", "train-0.1_a"),
        ("../../etc/passwd", "_._.._etc_passwd"),
        ("..", "_."),
        ("", "_"),
        ("größe\n\0", "größe__"),
    ] {
        assert_eq!(file_name(name), file);
    }
    assert_eq!(file_name(&"n".repeat(10_000)).len(), super::LONGEST_NAME);
}

#[test]
fn the_directories_of_different_runs_have_different_names() {
    let long = "京".repeat(99);
    let more = format!("{long}京");
    let names = [
        "fix_pool", "fix/pool", "fix pool", "größe", ".", "", &long, &more,
    ];
    let directories = names.map(run_file_name);
    assert_eq!(directories[0], "fix_pool");
    assert_eq!(directories[1], "fix_pool-9cd8e6be77198bd3");
    assert_eq!(directories[3], "größe");
    for (at, name) in directories.iter().enumerate() {
        assert!(name.len() <= super::LONGEST_NAME, "{name}");
        // A process gets the name from the command.
        assert_eq!(run_file_name(name), *name);
        assert!(!directories[..at].contains(name), "{name}");
    }
}

#[test]
fn the_files_of_a_run_are_sorted_and_none_of_them_can_block() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["b-2.jsonl", "a-1.jsonl", "a-1.snapshot", MARKER] {
        fs::write(path(name), "").unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(path("c-3.jsonl")).unwrap();
    let files = run_files(directory.path()).unwrap();
    assert_eq!(files, [path("a-1.jsonl"), path("b-2.jsonl")]);
    assert!(run_files(&path("absent")).is_err());
}
