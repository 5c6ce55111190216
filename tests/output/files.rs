//! The file that each process writes, for other programs to read.

use std::env;
use std::fs;
use std::process::Command;

use gpu_leak_check::ledger::{Kind, PoolName};
use gpu_leak_check::report::check_report::{
    AllowedBy, CheckStatus, FailedFree, Finding, Reason, Report,
};
use gpu_leak_check::report::{Code, Sink, run_file};
use insta::assert_snapshot;

use super::sample::{self, MIB, leak, report, with};

/// A report with a value in most of its optional fields.
fn full() -> Report {
    let finding = Finding {
        pool: Some(PoolName::Default),
        failed: Some(FailedFree {
            error: "CUDA_ERROR_INVALID_VALUE".to_owned(),
            code: 1,
            site: sample::site(),
        }),
        allowed_by: Some(AllowedBy {
            owner: Some("the runtime team".to_owned()),
            expired: Some("2026-05-31".to_owned()),
            ..AllowedBy::the_code("a table")
        }),
        foreign_thread: Some("dataloader-2".to_owned()),
        holders: None,
        notes: vec!["a note".to_owned()],
        ..leak(Kind::StreamOrdered, 2, MIB)
    };
    Report {
        reason: Some(Reason::new(Code::NoGpu, "what", "remedy")),
        notes: vec!["a note".to_owned()],
        configured_by: Some("gpu-leak-check.toml".to_owned()),
        ..with(finding)
    }
}

#[test]
fn names_and_values_in_json_stay_as_they_are() {
    assert_snapshot!(serde_json::to_string_pretty(&full()).unwrap());
}

#[test]
fn a_report_survives_json() {
    let text = serde_json::to_string(&full()).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), full());
}

#[test]
#[ignore = "ends its process; run by the test below"]
fn ends_the_process_inside_its_second_check() {
    let sink = Sink::global();
    let first = report(CheckStatus::Clean);
    sink.began(&first.test, &first.file, first.line);
    sink.finished(&first);
    sink.began("the_second", "tests/train.rs", 90);
    std::process::abort();
}

#[test]
fn a_test_that_took_its_process_down_is_known_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "output::files::ends_the_process_inside_its_second_check",
        ])
        .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
        .env("GPU_LEAK_CHECK_RUN", "nightly")
        .output()
        .unwrap()
        .status;
    assert!(!status.success());

    let files: Vec<_> = fs::read_dir(directory.path().join("nightly"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    let [path] = files.as_slice() else {
        panic!("one process, one file: {files:?}");
    };
    assert!(
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("main-")
    );
    let file = run_file::read(path).unwrap();
    assert_eq!(file.reports, [report(CheckStatus::Clean)]);
    assert_eq!(file.aborted.len(), 1);
    assert_eq!(file.aborted[0].test, "the_second");
}
