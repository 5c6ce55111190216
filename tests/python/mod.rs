//! A report about an unmodified Python program shows the lines of the program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_check::report::run_file;
use gpu_leak_check::report::{Sources, Style, text};
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::skipped;

/// The path of this directory.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Runs a program in this directory with `python3`, on the stand-in for the driver, with the
/// library preloaded and these settings of the command. Returns the report and the output, or
/// `None` if there is no suitable `python3`.
fn report_of(program: &str, variant: Option<&str>, settings: &str) -> Option<(Report, String)> {
    let tried = Command::new("python3")
        .args([
            "-c",
            "import ctypes, sys; sys.exit(sys.version_info < (3, 11))",
        ])
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        skipped("there is no python3 of 3.11 or later with ctypes in PATH");
        return None;
    }
    let machine = Fake::new();
    let library = env::current_exe().expect("this program's path");
    let library = library.with_file_name("libgpu_leak_injected.so");
    let files = machine.directory().join("run");
    // In the workspace, the reported paths would be relative to the workspace.
    let work = tempfile::tempdir().expect("a temporary directory");
    let copy = work
        .path()
        .join(Path::new(program).file_name().expect("a file"));
    fs::copy(directory().join(program), &copy).expect("a copy");
    let output = Command::new("python3")
        .arg(copy.file_name().expect("a file"))
        .args(variant)
        .current_dir(work.path())
        .envs(machine.env())
        .env("LD_PRELOAD", library)
        .env("GPU_LEAK_INJECT", settings)
        .env("GPU_LEAK_CHECK_OUTPUT", &files)
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .expect("python3");
    let wrong = String::from_utf8_lossy(&output.stderr);
    let ends_well = variant != Some("interrupted");
    assert_eq!(output.status.success(), ends_well, "{wrong}");
    let written = json_files(&files);
    let [file] = &written[..] else {
        panic!("one process writes one file: {written:?}\n{wrong}")
    };
    let mut file = run_file::read(file).expect("a run's file");
    let of_snapshot = file.snapshot.map(|it| it.report);
    let report = file.reports.pop().or(of_snapshot).expect("a report");
    let how = text::Rendering {
        style: Style::PLAIN,
        sources: Sources::below(work.path()),
    };
    let reported = text::to_string(&report, &how);
    Some((report, reported))
}

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (directories, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let is_lines = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "jsonl");
    let inside = directories
        .iter()
        .flat_map(|directory| json_files(directory));
    inside.chain(files.into_iter().filter(is_lines)).collect()
}

#[test]
fn a_leak_is_reported_with_its_python_lines() {
    let Some((report, reported)) = report_of("train.py", None, "{}") else {
        return;
    };
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
    let lines: Vec<_> = reported.lines().map(str::trim_end).collect();
    for expected in [
        // The leaks are in a thread, in a method called in a loop, and in a generator.
        "leaked: 4.00 MiB device memory, linear",
        "   called by  preload (:39)",
        "leaked: 3 × 1.00 MiB device memory, linear",
        "   called by  Trainer.step (:20) ← main (:48) ← train.py:55",
        "leaked: 2.00 MiB device memory, linear",
        "   called by  Trainer.batches (:27) ← main (:49) ← train.py:55",
        "   33 |     must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))",
        "leaked: 1 context",
        "   45 |     must(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))",
    ] {
        assert!(lines.contains(&expected), "no {expected:?} in:\n{reported}");
    }
    // Only Python 3.11 and later give the column and the qualified name.
    let at = |line: &&&str| line.starts_with("  --> train.py:33:10 in zeros");
    assert_eq!(lines.iter().filter(at).count(), 3, "{reported}");
}

/// Returns the kind, number and bytes of each finding of `programs/driver.py` that is not allowed.
fn findings_of(variant: &str, settings: &str) -> Option<Vec<(FindingKind, u64, u64)>> {
    let (report, reported) = report_of("programs/driver.py", Some(variant), settings)?;
    let found = report.findings.iter();
    let found = found.filter(|finding| finding.kind != FindingKind::Allowed);
    let found = found.map(|finding| {
        let line = finding.site.location();
        assert!(line.starts_with("driver.py:"), "{line} in:\n{reported}");
        (finding.kind, finding.count, finding.bytes)
    });
    Some(found.collect())
}

#[test]
fn memory_that_a_global_variable_holds_is_listed_and_fails_nothing() {
    let Some(found) = findings_of("list", "{}") else {
        return;
    };
    assert_eq!(found, [(FindingKind::Deferred, 3, 3 * (64 << 20))]);
    let clean = findings_of("clean", "{}").expect("python3 is there");
    assert_eq!(clean, []);
}

#[test]
fn memory_that_no_variable_holds_at_the_end_is_leaked() {
    let Some(found) = findings_of("malloc", "{}") else {
        return;
    };
    assert_eq!(found, [(FindingKind::Leaked, 2, 2 * 12345)]);
}

/// Python handles SIGINT: it shuts down, and only then lets the signal end the process.
#[test]
fn what_an_interrupted_program_held_is_in_its_last_snapshot() {
    let Some(found) = findings_of("interrupted", "{}") else {
        return;
    };
    assert_eq!(found, [(FindingKind::Leaked, 2, 2 * 12345)]);
}

/// The program's shutdown takes longer than the time between two snapshots.
#[test]
fn memory_that_rose_until_the_program_shut_down_has_grown() {
    let grown = [(FindingKind::Grew, 40, 40 << 20)];
    // On a busy machine the program may make no progress between two snapshots.
    for _ in 0..5 {
        let Some(found) = findings_of("growth", r#"{"every_ms":200}"#) else {
            return;
        };
        if found == grown {
            return;
        }
    }
    panic!("it was never reported as grown");
}
