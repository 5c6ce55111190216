//! The current code judges the recordings in `tests/recordings`, most of which are from real GPUs.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gpu_leak_check::recording::{self, Replay};
use gpu_leak_check::report::check_report::{Report, RunPurpose};

/// The variable that makes the test write the expectations instead of comparing them.
const BLESS: &str = "RECORDINGS_BLESS";

#[test]
fn every_recording_is_judged_as_expected() {
    let Ok(recordings) = recordings() else {
        // This directory does not exist if the test program was copied to another machine.
        return;
    };
    assert!(!recordings.is_empty(), "there are no recordings");
    let mut wrong = String::new();
    for path in recordings {
        let found = match recording::replay(&path) {
            Ok(replay) => summary(&replay),
            Err(error) => format!("{error}\n"),
        };
        let expected = path.with_extension("expected");
        if std::env::var_os(BLESS).is_some() {
            fs::write(&expected, &found).expect("a writable directory");
        }
        let expected = fs::read_to_string(&expected).unwrap_or_else(|_| "nothing\n".to_owned());
        if found != expected {
            let name = path.display();
            let _ = writeln!(wrong, "{name}\n--- expected\n{expected}--- found\n{found}");
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong}if this is right, run once more with {BLESS}=1"
    );
}

#[test]
fn a_timeline_s_peaks_are_those_of_the_tables() {
    let mut compared = 0;
    for path in recordings().unwrap_or_default() {
        let replay = recording::replay(&path).expect("a recording");
        for report in &replay.reports {
            let runs = report.timeline.iter().flat_map(|timeline| &timeline.runs);
            let judged = runs.filter(|run| run.purpose == RunPurpose::Judged);
            for course in judged.flat_map(|run| &run.curves) {
                let device = report.devices.iter().find(|it| it.place == course.place);
                let mut rows = device.iter().flat_map(|device| &device.rows);
                let row = rows.find(|row| row.layer == course.layer && row.figure == course.figure);
                let Some(row) = row else {
                    continue;
                };
                assert_eq!(course.start, row.baseline, "{}: {course:?}", path.display());
                assert_eq!(course.end(), row.after, "{}: {course:?}", path.display());
                if let Some(peak) = row.peak {
                    assert_eq!(course.peak, peak, "{}: {course:?}", path.display());
                    let points = course.points.iter().map(|point| point.2);
                    let most = points.fold(course.start, u64::max);
                    assert_eq!(most, peak, "{}: {course:?}", path.display());
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 9, "{compared}");
}

fn recordings() -> io::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns a readable summary, with one line for each fact.
fn summary(replay: &Replay) -> String {
    let mut text = String::new();
    for report in &replay.reports {
        add_report(report, &mut text);
    }
    for test in &replay.unfinished {
        let _ = writeln!(text, "{test}: unfinished");
    }
    text
}

fn add_report(report: &Report, text: &mut String) {
    let _ = writeln!(text, "{}: {}", report.test, report.status.name());
    for finding in &report.findings {
        let kind = finding.resource.map_or("reserve", |kind| kind.name());
        let _ = writeln!(
            text,
            "  {}: {} × {kind}, {} bytes, {} on {}, allocated at {}",
            finding.kind.name(),
            finding.count,
            finding.bytes,
            finding.layer,
            finding.place,
            finding.site.location(),
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "  note: {note}");
    }
}
