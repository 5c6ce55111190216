//! Code shared by the clients' tests. It runs a checked test in a separate process and reads its
//! report.

use std::hint;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, Finding, FindingKind, Report};
use gpu_leak_check::report::run_file;

/// How a checked test ended and what its check found.
pub struct Checked {
    /// Whether the test passed.
    pub passed: bool,
    /// The report of the check.
    pub report: Report,
    /// Everything that the process printed.
    pub output: String,
}

impl Checked {
    /// Returns the leaks among the findings, without those that are only first uses. Fails unless
    /// the test failed because of a leak.
    #[track_caller]
    pub fn leaks(&self) -> Vec<&Finding> {
        assert!(!self.passed, "a leak fails its test\n{}", self.output);
        assert_eq!(
            self.report.status,
            CheckStatus::Found(FindingKind::Leaked),
            "{}",
            self.output
        );
        let findings = self.report.findings.iter();
        findings
            .filter(|finding| finding.kind == FindingKind::Leaked)
            .collect()
    }
}

/// Runs the checked test with this name in a separate process.
pub fn run(test: &str) -> Checked {
    run_with(test, &[])
}

/// Runs the checked test with this name in a separate process, with additional environment
/// variables.
pub fn run_with(test: &str, variables: &[(&str, &str)]) -> Checked {
    let (passed, mut reports, output) = run_all_with(test, variables);
    assert_eq!(reports.len(), 1, "one check, one report\n{output}");
    Checked {
        passed,
        report: reports.remove(0),
        output,
    }
}

/// Runs, in a separate process, a test that itself runs several checked tests. Returns whether it
/// passed, the reports of all checks, and everything that the process printed.
pub fn run_all(test: &str) -> (bool, Vec<Report>, String) {
    run_all_with(test, &[])
}

fn run_all_with(test: &str, variables: &[(&str, &str)]) -> (bool, Vec<Report>, String) {
    let directory = std::env::temp_dir().join(format!("gpu-leak-client-{}", std::process::id()));
    let directory = directory.join(test.replace("::", "."));
    let program = std::env::current_exe().expect("the path of this program");
    let ended = Command::new(program)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .arg("--test-threads=1")
        // These variables could make a check without a result fail its test.
        .env_remove("CI")
        .env_remove("GPU_LEAK_CHECK")
        .env("GPU_LEAK_CHECK_OUTPUT", &directory)
        .envs(variables.iter().copied())
        .output()
        .expect("a child process");
    let output = format!(
        "{}\n{}\n{}",
        ended.status,
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut reports: Vec<Report> = Vec::new();
    for file in run_files(&directory) {
        reports.extend(run_file::read(&file).expect("a run file").reports);
    }
    // If the removal fails, the files remain in the directory for temporary files.
    let _ = std::fs::remove_dir_all(&directory);
    (ended.status.success(), reports, output)
}

/// Returns every run file below `directory`.
fn run_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(run_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
    found
}

/// Returns the file and line to which a finding attributes the resources.
pub fn blamed(finding: &Finding) -> Option<(&str, u32)> {
    let frame = &finding.site.frames[finding.site.user?];
    Some((frame.file.as_deref()?, frame.line?))
}

/// Starts eight threads that are busy until the process ends, even if a check fails.
pub fn start_busy_threads() {
    for _ in 0..8 {
        thread::spawn(|| {
            loop {
                hint::spin_loop();
            }
        });
    }
}

/// Returns the number of the line of `source` that ends in `// leak: mark`.
pub fn line_of(source: &str, mark: &str) -> u32 {
    let ending = format!("// leak: {mark}");
    let line = source.lines().position(|line| line.ends_with(&ending));
    u32::try_from(line.expect("the mark is in the source") + 1).expect("few lines")
}
