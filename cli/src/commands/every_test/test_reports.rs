//! The run files of tests that each run in a separate process.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use gpu_leak_check::report::check_report::Report;
use gpu_leak_check::report::run_file;

use crate::exit::{ExitResult, Failure};

/// The directory of the current run. The command that called cargo passes it in the environment.
pub(super) struct TestReports {
    path: PathBuf,
    /// The files of earlier test programs, which are ignored: process IDs are reused, and other
    /// programs may have tests of the same names.
    earlier: BTreeSet<PathBuf>,
}

impl TestReports {
    pub(super) fn of_this_run() -> ExitResult<Self> {
        let variable = |name: &str| {
            let absent = || format!("{name} is not set: only cargo should call this subcommand");
            env::var_os(name).ok_or_else(|| Failure::usage(absent()))
        };
        let runs = PathBuf::from(variable("GPU_LEAK_CHECK_OUTPUT")?);
        let path = runs.join(variable("GPU_LEAK_CHECK_RUN")?);
        Ok(Self {
            earlier: files_in(&path).collect(),
            path,
        })
    }

    /// Returns the report about `test` that the harness in `process` wrote, or `None` if there is
    /// none, for example because the test does not use a GPU.
    pub(super) fn report_of(&self, process: u32, test: &str) -> Option<Report> {
        // A file's name contains the process ID, so the files of other tests need not be read.
        let mark = format!("-{process}");
        let is_named = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            stem.contains(&mark) && !self.earlier.contains(path)
        };
        let files = files_in(&self.path).filter(is_named);
        let files = files.filter_map(|path| run_file::read(&path).ok());
        let own = files.filter(|file| {
            let header = file.header.as_ref();
            header.is_some_and(|header| header.pid == process)
        });
        let mut reports = own.flat_map(|file| file.reports);
        reports.find(|report| report.test == test)
    }
}

fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
    use gpu_leak_check::report::run_file::{Environment, Header, Record, SCHEMA};

    use super::{TestReports, files_in};
    use crate::render::sample;

    #[test]
    fn processes_with_the_same_id_are_distinguished_by_their_tests() {
        let base = tempfile::tempdir().expect("a directory");
        let leave = |name: &str, status| {
            let header = Header {
                schema: SCHEMA,
                version: "0.1.0".to_owned(),
                run: "every".to_owned(),
                pid: 7,
                executable: "/w/train".to_owned(),
                started_ms: 1,
                pid_space: None,
                attempt: None,
                environment: Environment::default(),
            };
            let report = sample::report(name, status);
            let records = [
                serde_json::to_string(&Record::Header(Box::new(header))),
                serde_json::to_string(&Record::Verdict(&report)),
            ];
            let lines = records.map(|line| line.expect("JSON") + "\n").concat();
            let copy = files_in(base.path()).count() + 1;
            fs::write(base.path().join(format!("train-7-{copy}.jsonl")), lines).expect("a file");
        };
        // This is the file of an earlier program with a test of the same name.
        leave("b", CheckStatus::Clean);
        let directory = TestReports {
            path: base.path().to_owned(),
            earlier: BTreeSet::from_iter(files_in(base.path())),
        };
        leave("a", CheckStatus::Clean);
        leave("b", CheckStatus::Found(FindingKind::Leaked));
        let status = |process, test| Some(directory.report_of(process, test)?.status);
        assert_eq!(
            status(7, "b"),
            Some(CheckStatus::Found(FindingKind::Leaked))
        );
        assert_eq!(status(7, "a"), Some(CheckStatus::Clean));
        assert_eq!(status(7, "c"), None);
        assert_eq!(status(77, "b"), None);
    }
}
