use std::fs;
use std::path::Path;

use super::{Sink, binary_name};
use crate::report::json::read;
use crate::report::model::{Report, Verdict};

fn report(test: &str) -> Report {
    Report {
        test: test.to_owned(),
        ..Report::bare(Verdict::Clean)
    }
}

#[test]
fn results_can_be_read_while_the_process_lives() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::new(folder.path().join("not/yet/there"), "run".to_owned());
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

#[test]
fn lines_of_many_threads_stay_whole() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::new(folder.path().to_owned(), "run".to_owned());
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
fn a_folder_that_cannot_be_written_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    // A file where a folder must be refuses everybody, root too.
    let base = folder.path().join("taken");
    fs::write(&base, "").unwrap();
    let sink = Sink::new(base, "run".to_owned());
    sink.began("a", "tests/train.rs", 3);
    sink.finished(&report("a"));
    let note = sink.note().unwrap();
    assert!(note.starts_with("results are not kept"), "{note}");
    assert!(note.contains("GPU_LEAK_CHECK_OUTPUT"), "{note}");
    assert_eq!(sink.note(), None);
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
