//! What the clients' tests of their tests share: a checked test in a process of its own, and the
//! report it wrote.
//!
//! Included by path, as a project of its own would have it: a package that both clients depend on
//! could change the features of what they depend on.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_leak_check::report::json;
use gpu_leak_check::report::model::{Finding, Report, Verdict};

/// How a checked test ended and what its check found.
pub struct Checked {
    passed: bool,
    report: Report,
    story: String,
}

impl Checked {
    /// The findings of a test that failed because it leaks, those left out that were only made
    /// once.
    #[track_caller]
    pub fn leaks(&self) -> Vec<&Finding> {
        assert!(!self.passed, "a leak fails its test\n{}", self.story);
        assert_eq!(self.report.verdict, Verdict::Leaked, "{}", self.story);
        let findings = self.report.findings.iter();
        findings
            .filter(|finding| finding.verdict == Verdict::Leaked)
            .collect()
    }

    /// All that the process printed.
    pub fn story(&self) -> &str {
        &self.story
    }
}

/// Runs the checked test of this name in a process of its own.
pub fn run(test: &str) -> Checked {
    let folder = std::env::temp_dir().join(format!("gpu-leak-client-{}", std::process::id()));
    let folder = folder.join(test.replace("::", "."));
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .arg("--test-threads=1")
        .env("GPU_LEAK_CHECK_OUTPUT", &folder)
        .output()
        .expect("a child process");
    let story = format!(
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let mut reports: Vec<Report> = Vec::new();
    for file in run_files(&folder) {
        reports.extend(json::read(&file).expect("a run file").reports);
    }
    // What is left behind in a folder for temporary files does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(reports.len(), 1, "one check, one report\n{story}");
    Checked {
        passed: output.status.success(),
        report: reports.remove(0),
        story,
    }
}

/// Every run file below `folder`.
fn run_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(run_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
    found
}
