//! `cargo gpu-leak test --every-test`: each test in a process of its own, watched from outside.
//!
//! cargo runs the test programs through a runner, which is this command, so that directories,
//! variables, filters and the program's arguments are as always. The runner lists the tests of a
//! program and runs each one alone, and a test that leaves something fails. A test under
//! `#[gpu_leak_check]` checks itself.
//!
//! A program that contains the harness watches itself: only that copy gets the reports of
//! allocators that use `gpu-leak-hooks`. Other programs are watched by the library that is
//! preloaded into them.

mod test_reports;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{self, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpu_leak_check::__command::{Contents, contents, unheard_allocators};
use gpu_leak_check::__inject::Settings;
use gpu_leak_check::report::check_report::{CheckStatus, Outcome as Verdict, Report};
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sink, Sources, headline};
use gpu_leak_check::units::quantity;

use self::test_reports::TestReports;
use crate::arguments::{EveryTest, RUNNER};
use crate::exit::{Failure, Outcome, code_of};
use crate::output::{print, say};
use crate::{launch, progress, workspace};

/// The variable that tells the runner how many tests to run at once.
const JOBS: &str = "GPU_LEAK_EVERY_TEST";
/// libtest's exit code if tests failed.
const FAILED: u8 = 101;

/// Makes `cargo` run the test programs through this command.
///
/// # Errors
///
/// If the path of this command is not UTF-8, as cargo's configuration requires.
pub(crate) fn set_runner(cargo: &mut Command, jobs: usize) -> Outcome<()> {
    let command = env::current_exe()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| {
            Failure::usage("the path of this command is not valid UTF-8, which cargo requires")
        })?;
    let runner = serde_json::json!([command, RUNNER]);
    let target = env!("GPU_LEAK_TARGET");
    cargo
        .arg("--config")
        .arg(format!("target.{target}.runner={runner}"))
        .env(JOBS, jobs.to_string());
    Ok(())
}

/// The runner: runs the tests of a program and returns libtest's exit code.
pub(crate) fn run(asked: &EveryTest) -> Outcome<u8> {
    let program = TestProgram::of(&asked.program);
    // A documentation test cannot list its tests: it would run instead.
    if program.path.file_name() == Some(OsStr::new("rust_out")) {
        return program.run_unwatched();
    }
    let Some(tests) = program.list(&[])? else {
        say(format_args!(
            "note: {} does not list its tests as libtest does, so it runs as it is and is not \
             watched; `cargo gpu-leak exec` watches a whole program",
            program.path.display()
        ));
        return program.run_unwatched();
    };
    let reports = TestReports::of_this_run()?;
    let has = |word: &str| program.arguments.iter().any(|argument| argument == word);
    let ignored = if has("--ignored") || has("--include-ignored") {
        BTreeSet::new()
    } else {
        program.list(&["--ignored"])?.unwrap_or_default()
    };
    let to_run: Vec<_> = tests.difference(&ignored).collect();
    print(&match tests.len() {
        1 => "\nrunning 1 test in its own process\n".to_owned(),
        number => format!(
            "\nrunning {}, each in its own process\n",
            quantity(number as u64, "test")
        ),
    });
    for test in &ignored {
        print(&format!("test {test} ... ignored\n"));
    }
    let contents = contents(program.path);
    let jobs = env::var(JOBS).ok().and_then(|jobs| jobs.parse().ok());
    let progress = progress::Tests::new(to_run.len());
    let results = run_all(&to_run, jobs.unwrap_or(1), |test| {
        progress.begins(test);
        let result = program.run(test, contents, &reports);
        progress.ends(test, &format!("test {test} ... {}\n", result.outcome()));
        result
    });
    let code = print_results(&results, ignored.len(), has("--show-output"));
    let is_deaf = contents.hooks && !contents.harness && !to_run.is_empty();
    Ok(match is_deaf && program.reports_to_nobody() {
        true if code == 0 => FAILED,
        _ => code,
    })
}

/// Runs each of `tests` on `jobs` threads and returns the results in the order of the tests.
fn run_all(
    tests: &[&String],
    jobs: usize,
    run: impl Fn(&str) -> TestResult + Sync,
) -> Vec<TestResult> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tests.len().max(1)) {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(test);
                    results.lock().expect("no thread panics here").push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics here");
    results.sort_by(|left: &TestResult, right| left.test.cmp(&right.test));
    results
}

/// A test program and its arguments, as cargo passes them to the runner.
struct TestProgram<'a> {
    path: &'a Path,
    arguments: &'a [OsString],
}

impl<'a> TestProgram<'a> {
    fn of(words: &'a [OsString]) -> Self {
        Self {
            path: Path::new(&words[0]),
            arguments: &words[1..],
        }
    }

    /// The names of its tests; none if it does not list them as libtest does.
    fn list(&self, more: &[&str]) -> Outcome<Option<BTreeSet<String>>> {
        let output = Command::new(self.path)
            .args(list_arguments(self.arguments))
            .args(more)
            .args(["--list", "--format", "terse"])
            .stdin(Stdio::null())
            .output()
            .map_err(|why| self.not_started(&why))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(output.status.success().then(|| names(&listed)).flatten())
    }

    /// Runs the program as cargo would, without the library.
    fn run_unwatched(&self) -> Outcome<u8> {
        let status = Command::new(self.path).args(self.arguments).status();
        let status = status.map_err(|why| self.not_started(&why))?;
        Ok(code_of(status))
    }

    fn not_started(&self, why: &io::Error) -> Failure {
        Failure::usage(format!("{} cannot be started: {why}", self.path.display()))
    }

    /// Records and says that the allocators of this program report to nobody. Returns whether that is a
    /// failure.
    fn reports_to_nobody(&self) -> bool {
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
        report.outcome == Some(Verdict::Fail)
    }

    /// The command that runs one test again. cargo tells the runner the package; the target is
    /// named after the program's file in the package's `tests` directory.
    fn again(&self, test: &str) -> String {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let mut words = String::from("cargo gpu-leak test --every-test");
        if let Some(package) = variable("CARGO_PKG_NAME") {
            words += &format!(" -p {package}");
            let manifest = variable("CARGO_MANIFEST_DIR");
            let target =
                manifest.and_then(|it| target_in(&Path::new(&it).join("tests"), self.name()));
            if let Some(target) = target {
                words += &format!(" --test {target}");
            }
        }
        words += &format!(" -- --exact {test}");
        let has = |word: &str| self.arguments.iter().any(|argument| argument == word);
        if has("--ignored") || has("--include-ignored") {
            words += " --include-ignored";
        }
        words
    }

    /// The name of the program without the hash that cargo adds to it.
    fn name(&self) -> &str {
        let name = self
            .path
            .file_stem()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        name.rsplit_once('-').map_or(name, |(name, _)| name)
    }

    /// Runs one test in a process of its own.
    fn run(&self, test: &str, contents: Contents, reports: &TestReports) -> TestResult {
        match self.run_watched(test, contents, reports) {
            Ok((output, report)) => TestResult {
                test: test.to_owned(),
                passed: output.status.success(),
                output: [output.stdout, output.stderr].concat(),
                report,
            },
            Err(why) => TestResult {
                test: test.to_owned(),
                passed: false,
                output: why.into_bytes(),
                report: None,
            },
        }
    }

    fn run_watched(
        &self,
        test: &str,
        contents: Contents,
        reports: &TestReports,
    ) -> Result<(Output, Option<Report>), String> {
        let settings = Settings {
            name: Some(test.to_owned()),
            is_test: true,
            contained_in_child_of: contents.harness.then(process::id),
            again: Some(self.again(test)),
            ..Settings::default()
        };
        let words: Vec<OsString> = [self.path.as_os_str()]
            .into_iter()
            .chain(["--exact", test, "--include-ignored", "--test-threads=1"].map(OsStr::new))
            .chain(output_arguments(self.arguments))
            .map(OsStr::to_owned)
            .collect();
        let captured = || {
            let uncaptured = words
                .iter()
                .any(|word| word == "--nocapture" || word == "--no-capture");
            match uncaptured {
                true => Stdio::inherit(),
                false => Stdio::piped(),
            }
        };
        // The process inherits the variables that name the directory of the run.
        let command = launch::watched(&words, &settings);
        let mut command = command.map_err(|failure| failure.what)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(captured())
            .stderr(captured())
            .spawn();
        let child = child.map_err(|why| self.not_started(&why).what)?;
        let number = child.id();
        let output = child.wait_with_output().map_err(|why| why.to_string())?;
        Ok((output, reports.report_of(number, test)))
    }
}

/// The target of integration tests in `directory` that cargo builds as `program`, in which `_` replaces `-`.
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

/// The program's arguments that are passed to each test's process: those on how output is shown.
/// The others choose tests, which is done by then, or concern several tests.
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

/// The arguments of the program that are passed when its tests are listed: all but the format.
fn list_arguments(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str().unwrap_or_default() {
            "--format" => {
                rest.next();
            }
            word if word.starts_with("--format=") => {}
            _ => kept.push(&**argument),
        }
    }
    kept
}

/// The tests in a list in libtest's format; none if it has another format.
fn names(listed: &str) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for line in listed.lines() {
        match line.rsplit_once(": ") {
            Some((name, "test")) => names.insert(name.to_owned()),
            Some((_, "benchmark")) => true,
            _ => return None,
        };
    }
    Some(names)
}

/// The result of a test.
struct TestResult {
    test: String,
    passed: bool,
    output: Vec<u8>,
    report: Option<Report>,
}

impl TestResult {
    /// Whether the test fails because of what its process left, or because that could not be seen.
    fn is_denied(&self) -> bool {
        let outcome = self.report.as_ref().and_then(|report| report.outcome);
        outcome == Some(Verdict::Fail)
    }

    fn outcome(&self) -> String {
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

/// Prints the failures and the last line as libtest does, and returns its exit code.
fn print_results(results: &[TestResult], ignored: usize, shows_all: bool) -> u8 {
    let is_failed = |result: &&TestResult| !result.passed || result.is_denied();
    if shows_all {
        print("\nsuccesses:\n");
        for result in results.iter().filter(|result| !is_failed(result)) {
            print(&format!("\n---- {} ----\n", result.test));
            print(&String::from_utf8_lossy(&result.output));
        }
    }
    let failed: Vec<_> = results.iter().filter(is_failed).collect();
    if !failed.is_empty() {
        print("\nfailures:\n");
    }
    // The sources of the tests, not those that this program was built from.
    let how = Rendering {
        sources: Sources::below(workspace::root()),
        ..Rendering::for_stderr()
    };
    for result in &failed {
        print(&format!("\n---- {} ----\n", result.test));
        if !result.passed {
            print(&String::from_utf8_lossy(&result.output));
        }
        // A test that checks itself has printed its report.
        let report = result.report.as_ref();
        if let Some(report) = report.filter(|it| result.is_denied() && it.is_of_a_program()) {
            print(&text::to_string(report, &how));
        }
    }
    if !failed.is_empty() {
        print("\nfailures:\n");
        for result in &failed {
            print(&format!("    {}\n", result.test));
        }
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    print(&format!(
        "\ntest result: {word}. {} passed; {} failed; {ignored} ignored\n\n",
        results.len() - failed.len(),
        failed.len()
    ));
    if failed.is_empty() { 0 } else { FAILED }
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
        let listed = names("a::b: test\nwith: colon: test\nspeed: benchmark\n").expect("a list");
        assert_eq!(Vec::from_iter(listed), ["a::b", "with: colon"]);
        assert_eq!(names("").map(|names| names.len()), Some(0));
        assert!(names("training for an hour\n").is_none());
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
        let expected = words("filter --skip --nocapture --color always --show-output -q");
        assert_eq!(listed, expected);
        assert_eq!(output_arguments(&words("--no-capture")), ["--no-capture"]);
    }
}
