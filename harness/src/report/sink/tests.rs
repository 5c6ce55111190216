use std::fs;
use std::path::Path;

use super::{Sink, binary_name};
use crate::report::check_report::{CheckStatus, Report};
use crate::report::run_file::{ProcessSnapshot, read};

fn report(test: &str) -> Report {
    Report {
        test: test.to_owned(),
        ..Report::bare(CheckStatus::Clean)
    }
}

#[test]
fn results_can_be_read_while_the_process_lives() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().join("not/yet/there"), "run".to_owned());
    assert_eq!(sink.path(), None);
    sink.began("a", "tests/train.rs", 3);
    sink.finished(&report("a"));
    sink.began("b", "tests/train.rs", 9);

    let file = read(&sink.path().unwrap()).unwrap();
    let header = file.header.unwrap();
    assert_eq!(
        (header.pid, header.run.as_str()),
        (std::process::id(), "run")
    );
    assert_eq!(file.reports, [report("a")]);
    assert_eq!(file.aborted.len(), 1);
    assert_eq!(file.aborted[0].test, "b");
    assert_eq!(sink.note(), None);
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_links_that_others_put_there() {
    use std::os::unix::fs::symlink;

    let directory = tempfile::tempdir().unwrap();
    let elsewhere = directory.path().join("of-somebody-else");
    fs::write(&elsewhere, "theirs").unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    let path = sink.path().unwrap();

    symlink(&elsewhere, path.with_extension("unfinished")).unwrap();
    sink.snapshot(&ProcessSnapshot {
        cause: "tick".to_owned(),
        after_ms: 1,
        report: report("a"),
    });
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
    assert!(read(&path).unwrap().snapshot.is_some());

    fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    sink.finished(&report("a"));
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
    assert!(
        sink.note()
            .is_some_and(|note| note.contains("cannot write"))
    );
}

#[test]
fn lines_of_many_threads_stay_whole() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let sink = &sink;
            scope.spawn(move || {
                for round in 0..50 {
                    let name = format!("{thread}-{round}");
                    sink.began(&name, "tests/train.rs", 3);
                    sink.finished(&report(&name));
                }
            });
        }
    });
    let file = read(&sink.path().unwrap()).unwrap();
    assert_eq!(
        (file.reports.len(), file.aborted.len(), file.unreadable),
        (400, 0, 0)
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    // If there is a file where a directory should be, not even root can create the directory.
    let base = directory.path().join("taken");
    fs::write(&base, "").unwrap();
    let sink = Sink::new(base, "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    sink.finished(&report("a"));
    let note = sink.note().unwrap();
    assert!(note.starts_with("results are not saved"), "{note}");
    assert!(note.contains("GPU_LEAK_CHECK_OUTPUT"), "{note}");
    assert_eq!(sink.note(), None);
}

/// For example, the program had too many open files at that moment.
#[test]
fn a_snapshot_that_cannot_be_written_does_not_lose_the_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    let path = sink.path().unwrap();
    // A file cannot take the place of a directory.
    fs::create_dir(path.with_extension("snapshot")).unwrap();
    sink.snapshot(&ProcessSnapshot {
        cause: "tick".to_owned(),
        after_ms: 1,
        report: report("a"),
    });
    assert!(!path.with_extension("unfinished").exists());
    sink.finished(&report("a"));
    assert_eq!(read(&path).unwrap().reports, [report("a")]);
    assert_eq!(sink.note(), None);
}

#[test]
fn results_that_were_removed_meanwhile_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    fs::remove_dir_all(directory.path().join("run")).unwrap();
    sink.finished(&report("a"));
    let note = sink.note().unwrap();
    assert!(note.contains("was removed while the tests ran"), "{note}");
}

#[test]
fn the_run_of_a_living_process_stays_however_many_newer_runs_there_are() {
    use std::time::{Duration, SystemTime};

    use crate::report::run_directory::{NamedRun, RunDirectory};

    let base = tempfile::tempdir().unwrap();
    let sink = Sink::new(base.path().to_owned(), "long".to_owned());
    sink.began("a", "tests/train.rs", 3);
    let long = base.path().join("long");
    let hours_ago = SystemTime::now() - Duration::from_secs(10_000);
    fs::File::open(&long)
        .unwrap()
        .set_modified(hours_ago)
        .unwrap();
    for newer in 0..30 {
        let directory = RunDirectory {
            base: base.path().to_owned(),
            run: format!("newer-{newer}"),
        };
        directory.create_file("train", 1).unwrap();
    }
    let taken = NamedRun::begin(base.path(), "long")
        .unwrap_err()
        .to_string();
    assert!(taken.contains("still running"), "{taken}");
    sink.finished(&report("a"));
    assert_eq!(sink.note(), None);
    let file = read(&sink.path().unwrap()).unwrap();
    assert_eq!(file.reports, [report("a")]);
    assert!(!base.path().join("newer-0").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_a_living_command_has_set_aside_is_left_alone() {
    use crate::report::run_directory::{NamedRun, RunDirectory};

    let base = tempfile::tempdir().unwrap();
    let aside = |process: &str| {
        let run = format!(".main-earlier-{process}");
        let base = base.path().to_owned();
        RunDirectory { base, run }.create_file("train", 1).unwrap()
    };
    let main = base.path().join("main");
    let of_another = aside("1");
    drop(NamedRun::begin(base.path(), "main").unwrap());
    assert!(of_another.exists() && !main.exists());
    // No process has this ID, so its command was killed.
    aside("999999999");
    drop(NamedRun::begin(base.path(), "main").unwrap());
    assert!(of_another.exists() && main.join("train-1.jsonl").exists());
}

/// A limit on the size of files takes the place of a full disk, because in both cases only a part
/// of the line fits.
#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_finished_verdicts_stay_and_none_is_invented() {
    if passes_in_another_process() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    sink.finished(&report("a"));
    sink.began("b", "tests/train.rs", 9);
    let path = sink.path().unwrap();
    let room = fs::metadata(&path).unwrap().len() + 80;
    limit_files_to(room);
    sink.finished(&report("b"));
    sink.began("c", "tests/train.rs", 12);

    let file = read(&path).unwrap();
    assert_eq!(file.reports, [report("a")]);
    assert_eq!(
        (file.aborted.len(), file.torn, file.unreadable),
        (0, false, 0)
    );
    assert_eq!(file.lost.len(), 1);
    assert_eq!(file.lost[0].test, "b");
    let note = sink.note().unwrap();
    assert!(note.starts_with("results are not saved"), "{note}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_may_write_nothing_is_not_ended_by_writing() {
    if passes_in_another_process() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let sink = Sink::new(directory.path().to_owned(), "run".to_owned());
    limit_files_to(0);
    sink.began("a", "tests/train.rs", 3);
    let note = sink.note().unwrap();
    assert!(note.starts_with("results are not saved"), "{note}");
}

/// Runs the calling test in another process, to which alone a limit applies. Returns `false` in
/// that process.
#[cfg(target_os = "linux")]
fn passes_in_another_process() -> bool {
    if std::env::var_os("FILLS_THE_DISK").is_some() {
        return false;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", std::thread::current().name().unwrap()])
        .env("FILLS_THE_DISK", "1")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && reported.contains("1 passed"),
        "{reported}"
    );
    true
}

/// Prevents files of this process from growing beyond `bytes`.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std cannot set resource limits")]
fn limit_files_to(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: the limit is valid and outlives the call.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(failed, 0);
}

#[test]
fn an_attempt_has_the_number_that_the_runner_gives() {
    let read = |known: &'static [(&str, &str)]| {
        super::attempt(|name| {
            let found = known.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let attempt = read(&[
        ("NEXTEST_BINARY_ID", "optim::train"),
        ("NEXTEST_TEST_NAME", "frees"),
        ("NEXTEST_RUN_ID", "5f2c-aa"),
        ("NEXTEST_ATTEMPT", "2"),
        ("NEXTEST_STRESS_CURRENT", "none"),
    ])
    .unwrap();
    assert_eq!(attempt.test, "optim::train frees");
    assert_eq!(attempt.run, "5f2c-aa");
    assert_eq!((attempt.number, attempt.round), (2, None));
    // Older releases of nextest set fewer variables.
    assert_eq!(read(&[("NEXTEST_TEST_NAME", "frees")]), None);
}

#[test]
fn a_program_is_named_without_cargos_hash() {
    for (path, name) in [
        ("/w/target/debug/deps/train-0123456789abcdef", "train"),
        ("/w/target/debug/train-model", "train-model"),
        ("", ""),
    ] {
        assert_eq!(binary_name(Path::new(path)), name);
    }
}
