mod schema;

use std::fs;
use std::io::Read;
use std::path::Path;

use super::{
    Began, Environment, Header, Lost, ProcessSnapshot, Record, RunFile, SCHEMA, Unowned, pid_space,
    program_at, read,
};
use crate::report::check_report::{CheckStatus, Report};

fn header() -> Header {
    Header {
        schema: SCHEMA,
        version: "9.0.0".to_owned(),
        run: "1-2".to_owned(),
        pid: 7,
        executable: "/w/target/debug/deps/train".to_owned(),
        started_ms: 1_700_000_000_000,
        pid_space: None,
        attempt: None,
        environment: Environment::default(),
    }
}

fn began(test: &str) -> Began {
    Began {
        test: test.to_owned(),
        file: "tests/train.rs".to_owned(),
        line: 3,
    }
}

fn report(test: &str) -> Report {
    Report {
        test: test.to_owned(),
        ..Report::bare(CheckStatus::Clean)
    }
}

fn parse(bytes: &[u8]) -> RunFile {
    super::parse(bytes).unwrap()
}

fn written(records: &[Record<'_>]) -> Vec<u8> {
    records
        .iter()
        .flat_map(|record| record.to_line().unwrap())
        .collect()
}

#[test]
fn what_was_written_is_read_back() {
    let unowned = Unowned {
        test: "a".to_owned(),
        count: 3,
        bytes: 4096,
    };
    let bytes = written(&[
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
        Record::Verdict(&report("a")),
        Record::Unowned(unowned.clone()),
    ]);
    assert_eq!(
        parse(&bytes),
        RunFile {
            header: Some(header()),
            reports: vec![report("a")],
            unowned: vec![unowned],
            ..RunFile::default()
        }
    );
}

#[test]
fn a_check_that_began_and_never_ended_was_aborted() {
    let records = ["a", "b"].map(|test| Record::Began(began(test)));
    let file = parse(&[written(&records), written(&[Record::Verdict(&report("a"))])].concat());
    assert_eq!(file.aborted, [began("b")]);
}

#[test]
fn two_checks_with_one_name_each_need_their_own_end() {
    let verdict = report("a");
    let twice = [
        Record::Began(began("a")),
        Record::Began(began("a")),
        Record::Verdict(&verdict),
    ];
    assert_eq!(parse(&written(&twice)).aborted, [began("a")]);
}

#[test]
fn a_torn_last_line_is_ignored_wherever_it_was_torn() {
    let whole = written(&[
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
    ]);
    let last = written(&[Record::Verdict(&report("a"))]);
    for length in 1..last.len() {
        let file = parse(&[&whole, &last[..length]].concat());
        assert!(
            file.torn && file.reports.is_empty() && file.unreadable == 0,
            "{length}"
        );
        // Once the torn line contains the name of the test, the check is known to have ended.
        let unknown = [file.aborted, file.lost].concat();
        assert_eq!(unknown, [began("a")]);
    }
}

#[test]
fn a_verdict_that_could_not_be_written_is_neither_aborted_nor_clean() {
    let mut bytes = written(&[
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
    ]);
    bytes.extend(&Record::Verdict(&report("a")).to_line().unwrap()[..60]);
    let file = parse(&bytes);
    assert_eq!((file.aborted, file.lost), (vec![], vec![began("a")]));

    let reported = written(&[
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
        Record::Lost(Lost {
            why: "no space".to_owned(),
        }),
    ]);
    let file = parse(&reported);
    assert_eq!((file.aborted, file.lost), (vec![], vec![began("a")]));
    assert_eq!(file.lost_why.as_deref(), Some("no space"));
}

#[test]
fn garbage_is_counted_and_costs_no_verdict() {
    let mut bytes = vec![0xff; 300];
    bytes.extend(b"\n\0\0\0\n");
    bytes.extend(written(&[
        Record::Header(Box::new(header())),
        Record::Verdict(&report("a")),
    ]));
    let file = parse(&bytes);
    assert_eq!((file.reports.len(), file.unreadable), (1, 2));
}

#[test]
fn a_line_without_an_end_is_never_held_whole() {
    let endless = std::io::BufReader::new(std::io::repeat(b'x').take(3 * super::LONGEST_LINE));
    let after = written(&[
        Record::Header(Box::new(header())),
        Record::Verdict(&report("a")),
    ]);
    let file = super::parse(endless.chain(&b"\n"[..]).chain(&*after)).unwrap();
    assert_eq!((file.reports.len(), file.unreadable), (1, 1));
}

#[test]
fn a_process_is_known_to_run_only_in_its_own_pid_namespace() {
    let this = Header {
        pid: std::process::id(),
        executable: std::env::current_exe().unwrap().display().to_string(),
        pid_space: pid_space(),
        ..header()
    };
    assert_eq!(this.is_running(), Some(true));
    let another_program = Header {
        executable: "/another".to_owned(),
        ..this.clone()
    };
    assert_eq!(another_program.is_running(), Some(false));
    let elsewhere = Header {
        pid_space: Some("another machine".to_owned()),
        ..this
    };
    assert_eq!(elsewhere.is_running(), None);
}

#[test]
fn a_program_that_was_rebuilt_while_it_ran_keeps_its_path() {
    for link in ["/w/train-01", "/w/train-01 (deleted)"] {
        assert_eq!(program_at(Path::new(link)), "/w/train-01");
    }
}

#[test]
fn records_and_fields_of_later_releases_are_skipped() {
    let later = br#"{"record":"interlude","x":[1]}
{"record":"began","test":"a","file":"tests/train.rs","line":3,"colour":"red"}
not json
"#;
    let file = parse(later);
    assert_eq!(file.aborted, [began("a")]);
    assert_eq!(file.unreadable, 1);
}

#[test]
fn a_record_that_its_own_release_does_not_know_is_damaged() {
    let mut bytes = written(&[
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
    ]);
    bytes.extend(b"{\"record\":\"interlude\"}\n");
    let file = parse(&bytes);
    assert_eq!((file.unreadable, file.first_unreadable), (0, None));
    let same = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let text = String::from_utf8(bytes).unwrap();
    let file = parse(text.replace("\"version\":\"9.0.0\"", &same).as_bytes());
    assert_eq!((file.unreadable, file.first_unreadable), (1, Some(3)));
}

#[test]
fn a_second_file_in_a_file_is_not_read_as_a_part_of_the_first() {
    let one = written(&[
        Record::Header(Box::new(header())),
        Record::Verdict(&report("a")),
    ]);
    let file = parse(&one.repeat(2));
    assert_eq!((file.reports.len(), file.unreadable), (2, 1));
    assert_eq!(file.first_unreadable, Some(3));
}

#[test]
fn a_verdict_without_its_outcome_is_damaged() {
    let line = written(&[Record::Verdict(&report("a"))]);
    let text = String::from_utf8(line).unwrap();
    assert_eq!(parse(text.as_bytes()).reports, [report("a")]);
    let damaged = text.replace("\"outcome\":null,", "");
    assert_ne!(text, damaged);
    assert_eq!(parse(damaged.as_bytes()).unreadable, 1);
}

#[test]
fn a_later_schema_is_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.jsonl");
    let later = Header {
        schema: SCHEMA + 1,
        version: "9.0.0".to_owned(),
        ..header()
    };
    fs::write(&path, written(&[Record::Header(Box::new(later))])).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(
        error.contains("gpu-leak-check 9.0.0 with schema 2"),
        "{error}"
    );
    assert!(error.ends_with("use a newer release"), "{error}");
}

#[test]
fn an_empty_file_contains_no_results() {
    assert_eq!(parse(b""), RunFile::default());
}

#[test]
fn a_snapshot_counts_only_for_a_process_without_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("train-7.jsonl");
    let snapshot = ProcessSnapshot {
        cause: "tick".to_owned(),
        after_ms: 2000,
        report: report("a"),
    };
    let snapshot = Record::Snapshot(&snapshot);
    fs::write(path.with_extension("snapshot"), written(&[snapshot])).unwrap();
    let mut records = vec![
        Record::Header(Box::new(header())),
        Record::Began(began("a")),
    ];
    fs::write(&path, written(&records)).unwrap();
    let seen = read(&path)
        .unwrap()
        .snapshot
        .expect("the newest snapshot is read");
    assert_eq!(
        (&*seen.cause, seen.after_ms, &*seen.report.test),
        ("tick", 2000, "a")
    );
    let report = report("a");
    records.push(Record::Verdict(&report));
    fs::write(&path, written(&records)).unwrap();
    assert_eq!(read(&path).unwrap().snapshot, None);
}
