//! Runs a checked test in a separate process, and reads the report that it wrote.

use std::path::Path;

use gpu_leak_check::report::check_report::{CheckStatus, Report};
use gpu_leak_check::report::run_file::{self, Late};

use crate::child::{Child, Run};
use crate::fake::Fake;
use crate::gpu;
use crate::published::assert_published;

/// The outcome of a checked test, and the findings of its check.
#[derive(Debug)]
pub struct Checked {
    /// The process that ran the test.
    pub child: Child,
    /// The reports of the checks, in the order in which the checks ended.
    pub reports: Vec<Report>,
    /// The memory that was freed after the verdict.
    pub late: Vec<Late>,
    /// The checks that began and did not end.
    pub aborted: Vec<String>,
}

impl Checked {
    /// Returns the only report of a process with one check.
    ///
    /// # Panics
    ///
    /// Panics if there is no report or more than one. The message contains the output of the
    /// process.
    #[must_use]
    pub fn report(&self) -> &Report {
        let [report] = &self.reports[..] else {
            panic!("{} reports\n{}", self.reports.len(), self.output());
        };
        report
    }

    /// Fails unless the test passed and all its checks were clean.
    ///
    /// # Panics
    ///
    /// Panics if the test failed or a check was not clean. The message contains the output of the
    /// process.
    pub fn assert_clean(&self) {
        assert!(self.child.status.success(), "{}", self.output());
        for report in &self.reports {
            assert_eq!(report.status, CheckStatus::Clean, "{}", self.output());
        }
    }

    /// The output of the process, for the message of an assertion.
    #[must_use]
    pub fn output(&self) -> String {
        format!(
            "{:?}\n{}\n{}",
            self.child.status, self.child.stdout, self.child.stderr
        )
    }
}

/// Runs a checked test on this machine's GPU if there is one, otherwise on the stand-in.
#[must_use]
pub fn run(test: &str) -> Checked {
    if gpu::is_present() {
        finish(Run::of(test))
    } else {
        on(&Fake::new(), test)
    }
}

/// Runs a checked test on a stand-in for a GPU.
#[must_use]
pub fn on(fake: &Fake, test: &str) -> Checked {
    finish(fake.run(test))
}

/// Runs a prepared child and reads what its checks wrote.
///
/// # Panics
///
/// Panics if the run file cannot be read.
#[must_use]
pub fn finish(run: Run) -> Checked {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let child = run.env("GPU_LEAK_CHECK_OUTPUT", directory.path()).run();
    read(child, directory.path())
}

/// Returns what the checks of a child process that has ended wrote into `directory`.
///
/// # Panics
///
/// Panics if a run file cannot be read.
#[must_use]
pub fn read(child: Child, directory: &Path) -> Checked {
    let mut checked = Checked {
        child,
        reports: Vec::new(),
        late: Vec::new(),
        aborted: Vec::new(),
    };
    for file in files(directory) {
        assert_published(&file);
        let file = run_file::read(&file).expect("a run file");
        checked.reports.extend(file.reports);
        checked.late.extend(file.late);
        checked
            .aborted
            .extend(file.aborted.into_iter().map(|began| began.test));
    }
    checked
}

/// Returns every run file below `directory`.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            found.push(path);
        }
    }
    found
}
