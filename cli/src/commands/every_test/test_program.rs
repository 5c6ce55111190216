//! A libtest program: lists its tests, and runs each of them in a watched process.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{self, Command, ExitStatus, Stdio};

use gpu_leak_check::__command::{Contents, unheard_allocators};
use gpu_leak_check::__inject::Settings;
use gpu_leak_check::report::check_report::{CheckStatus, Outcome, Report};
use gpu_leak_check::report::{Sink, headline};
use tempfile::NamedTempFile;

use super::test_reports::TestReports;
use crate::exit::{ExitResult, Failure, code_of};
use crate::launch;
use crate::output::say;

/// A test program and its arguments, as cargo passes them to the runner.
pub(super) struct TestProgram<'a> {
    pub(super) path: &'a Path,
    pub(super) arguments: &'a [OsString],
}

impl<'a> TestProgram<'a> {
    pub(super) fn of(command_line: &'a [OsString]) -> Self {
        Self {
            path: Path::new(&command_line[0]),
            arguments: &command_line[1..],
        }
    }

    /// Returns the names of the program's tests and benchmarks, or `None` if it does not list them
    /// as libtest does.
    pub(super) fn list(&self, more: &[&str]) -> ExitResult<Option<BTreeSet<String>>> {
        let output = Command::new(self.path)
            .args(list_arguments(self.arguments))
            .args(more)
            .arg("--list")
            .stdin(Stdio::null())
            .output()
            .map_err(|why| self.not_started(&why))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(output.status.success().then(|| names(&listed)).flatten())
    }

    /// Runs the program as cargo would, without the library.
    pub(super) fn run_unwatched(&self) -> ExitResult<u8> {
        let mut command = Command::new(self.path);
        command.args(self.arguments);
        // A program with the documentation tests of an edition-2024 crate starts itself again for
        // each of them. rustdoc does not name its path if there is a runner, and without the path,
        // all of them run in one process.
        let status = command.env("RUSTDOC_DOCTEST_BIN_PATH", self.path).status();
        let status = status.map_err(|why| self.not_started(&why))?;
        Ok(code_of(status))
    }

    fn not_started(&self, why: &io::Error) -> Failure {
        Failure::usage(format!("cannot start {}: {why}", self.path.display()))
    }

    /// Records and prints that nothing receives the reports of this program's allocators. Returns
    /// whether that is a failure.
    pub(super) fn reports_to_nobody(&self) -> bool {
        let path = self.path.display().to_string();
        let name = self.name();
        let report = unheard_allocators(name, &path);
        let sink = Sink::global();
        sink.began(&report.test, &report.file, 0);
        sink.finished(&report);
        if let Some(reason) = &report.reason {
            say(format_args!(
                "note: {name} is not measured: {}; {}",
                reason.what, reason.remedy
            ));
        }
        report.outcome == Some(Outcome::Fail)
    }

    /// Returns the command that runs one test again. cargo passes the name of the package to the
    /// runner. The target of an integration test is found in the package's `tests` directory.
    fn again(&self, test: &str) -> String {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let mut command = String::from("cargo gpu-leak test --every-test");
        if let Some(package) = variable("CARGO_PKG_NAME") {
            command += &format!(" -p {package}");
            let manifest = variable("CARGO_MANIFEST_DIR");
            let target =
                manifest.and_then(|it| target_in(&Path::new(&it).join("tests"), self.name()));
            if let Some(target) = target {
                command += &format!(" --test {target}");
            }
        }
        command += &format!(" -- --exact {test}");
        let has = |word: &str| self.arguments.iter().any(|argument| argument == word);
        if has("--ignored") || has("--include-ignored") {
            command += " --include-ignored";
        }
        command
    }

    /// Returns the name of the program without the hash that cargo adds to it.
    fn name(&self) -> &str {
        let name = self
            .path
            .file_stem()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        name.rsplit_once('-').map_or(name, |(name, _)| name)
    }

    /// Runs one test in its own process.
    pub(super) fn run(&self, test: &str, contents: Contents, reports: &TestReports) -> TestResult {
        let result = self.run_watched(test, contents, reports);
        result.unwrap_or_else(|why| TestResult {
            test: test.to_owned(),
            passed: false,
            output: why.into_bytes(),
            report: None,
        })
    }

    fn run_watched(
        &self,
        test: &str,
        contents: Contents,
        reports: &TestReports,
    ) -> Result<TestResult, String> {
        let settings = Settings {
            name: Some(test.to_owned()),
            is_test: true,
            contained_in_child_of: contents.harness.then(process::id),
            again: Some(self.again(test)),
            ..Settings::default()
        };
        let command_line: Vec<OsString> = [self.path.as_os_str()]
            .into_iter()
            .chain(["--exact", test, "--include-ignored", "--test-threads=1"].map(OsStr::new))
            .chain(output_arguments(self.arguments))
            .map(OsStr::to_owned)
            .collect();
        let is_uncaptured = |word: &OsString| word == "--nocapture" || word == "--no-capture";
        // The process inherits the variables that name the directory of the run.
        let command =
            launch::watched(&command_line, &settings).map_err(|failure| failure.message)?;
        let ended = run_to_end(command, !command_line.iter().any(is_uncaptured));
        let (pid, status, output) =
            ended.map_err(|why| format!("cannot run {}: {why}\n", self.path.display()))?;
        Ok(TestResult {
            test: test.to_owned(),
            passed: status.success(),
            output,
            report: reports.report_of(pid, test),
        })
    }
}

/// Runs `command` to its end, and returns its process ID, its exit status and, if it is captured,
/// its output.
fn run_to_end(mut command: Command, is_captured: bool) -> io::Result<(u32, ExitStatus, Vec<u8>)> {
    // Unlike a pipe, a file can be read to its end while a process that the test left running keeps
    // it open.
    let file = NamedTempFile::new()?;
    let mut reader = file.reopen()?;
    let file = file.into_file();
    if is_captured {
        command.stdout(file.try_clone()?).stderr(file);
    }
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let status = child.wait()?;
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    Ok((child.id(), status, output))
}

/// Returns the integration test target in `directory` that cargo builds as `program`. In the
/// program's name, cargo replaces `-` with `_`.
fn target_in(directory: &Path, program: &str) -> Option<String> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut targets = entries.filter_map(|entry| {
        let path = entry.path();
        let is_target =
            path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file();
        let name = path.file_stem()?.to_str()?.to_owned();
        is_target.then_some(name)
    });
    targets.find(|name| name.replace('-', "_") == program.replace('-', "_"))
}

/// Returns the program's arguments that are passed to each test's process: those that control how
/// output is shown. The others concern several tests, or select tests, which has already been done.
fn output_arguments(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut passed = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str().unwrap_or_default() {
            "--nocapture" | "--no-capture" | "--show-output" => passed.push(&**argument),
            "--color" | "-Z" => {
                passed.push(argument);
                passed.extend(rest.next().map(OsString::as_os_str));
            }
            "--skip" | "--test-threads" | "--format" | "--logfile" | "--shuffle-seed" => {
                rest.next();
            }
            word if word.starts_with("--color=") || word.starts_with("-Z") => {
                passed.push(argument);
            }
            _ => {}
        }
    }
    passed
}

/// Returns the arguments of the program that are passed when its tests are listed: all but those
/// that change the format or write the list to a file.
fn list_arguments(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str().unwrap_or_default() {
            "--format" | "--logfile" => {
                rest.next();
            }
            "-q" | "--quiet" => {}
            word if word.starts_with("--format=") || word.starts_with("--logfile=") => {}
            _ => kept.push(&**argument),
        }
    }
    kept
}

/// Parses a list in libtest's format and returns its tests and benchmarks, or `None` if the list
/// has another format. libtest ends the list with the numbers of both. A benchmark that is selected
/// by name runs once, like a test. Some other harnesses omit this line. Then a list with benchmarks
/// is not accepted, because the harness may run a selected benchmark differently, and an empty list
/// is not accepted, because the program may not support `--list`.
fn names(listed: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut has_benchmarks = false;
    let mut lines = listed.lines().filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        match line.rsplit_once(": ") {
            Some((name, kind @ ("test" | "benchmark"))) => {
                names.insert(name.to_owned());
                has_benchmarks |= kind == "benchmark";
            }
            _ if is_total(line) => return lines.next().is_none().then_some(names),
            _ => return None,
        }
    }
    (!names.is_empty() && !has_benchmarks).then_some(names)
}

/// Whether `line` has the form `3 tests, 0 benchmarks`.
fn is_total(line: &str) -> bool {
    let is_number_of = |text: &str, noun: &str| {
        text.split_once(' ').is_some_and(|(number, word)| {
            number.parse::<u64>().is_ok() && word.trim_end_matches('s') == noun
        })
    };
    line.split_once(", ").is_some_and(|(tests, benchmarks)| {
        is_number_of(tests, "test") && is_number_of(benchmarks, "benchmark")
    })
}

pub(super) struct TestResult {
    pub(super) test: String,
    pub(super) passed: bool,
    pub(super) output: Vec<u8>,
    pub(super) report: Option<Report>,
}

impl TestResult {
    /// Whether the test fails because its process left something, or because this could not be
    /// determined.
    pub(super) fn is_denied(&self) -> bool {
        let outcome = self.report.as_ref().and_then(|report| report.outcome);
        outcome == Some(Outcome::Fail)
    }

    pub(super) fn outcome(&self) -> String {
        match &self.report {
            _ if !self.passed => "FAILED".to_owned(),
            Some(report) if self.is_denied() => format!("FAILED: {}", headline(report)),
            Some(report) if report.status != CheckStatus::Clean => {
                format!("ok, {}", report.status.name())
            }
            _ => "ok".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::{list_arguments, names, output_arguments, target_in};

    #[test]
    fn a_target_of_integration_tests_is_known_by_its_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let tests = directory.path();
        fs::write(tests.join("train-steps.rs"), "").expect("a file");
        fs::create_dir_all(tests.join("suite")).expect("a directory");
        fs::write(tests.join("suite/main.rs"), "").expect("a file");
        fs::create_dir_all(tests.join("support")).expect("a directory");
        let target = |program| target_in(tests, program);
        assert_eq!(target("train_steps").as_deref(), Some("train-steps"));
        assert_eq!(target("suite").as_deref(), Some("suite"));
        assert_eq!(target("support"), None);
        assert_eq!(target("train"), None, "unit tests of the library");
    }

    #[test]
    fn only_a_list_in_libtests_format_is_accepted() {
        let listed = "a::b: test\nwith: colon: test\nspeed: benchmark\n\n2 tests, 1 benchmark\n";
        let listed = names(listed).expect("a list");
        assert_eq!(Vec::from_iter(listed), ["a::b", "speed", "with: colon"]);
        let none = names("0 tests, 0 benchmarks\n").expect("a list");
        assert!(none.is_empty());
        assert!(names("training for an hour\n").is_none());
        assert!(names("1 test, 0 benchmarks\ntraining for an hour\n").is_none());
    }

    #[test]
    fn a_list_without_totals_is_accepted_if_it_has_only_tests() {
        let listed = names("a::b: test\nc: test\n").expect("a list");
        assert_eq!(Vec::from_iter(listed), ["a::b", "c"]);
        assert!(names("").is_none());
        assert!(names("fft: benchmark\n").is_none());
    }

    #[test]
    fn output_arguments_are_for_each_test_and_filters_for_the_list() {
        let words = |words: &str| Vec::from_iter(words.split(' ').map(OsString::from));
        let given =
            words("filter --skip --nocapture --color always --format json --show-output -q");
        assert_eq!(
            output_arguments(&given),
            ["--color", "always", "--show-output"]
        );
        let listed = list_arguments(&given);
        let expected = words("filter --skip --nocapture --color always --show-output");
        assert_eq!(listed, expected);
        assert_eq!(output_arguments(&words("--no-capture")), ["--no-capture"]);
    }
}
