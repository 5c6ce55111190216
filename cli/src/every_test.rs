//! `cargo gpu-leak test --every-test`: each test in a process of its own, watched from outside.
//!
//! cargo runs the test programs, as ever, through a runner: this command. So folders, variables,
//! filters and the program's arguments are cargo's and libtest's affair. The runner asks a program
//! for its tests and runs each one alone, and a test that leaves something fails. One under
//! `#[gpu_leak_check]` takes the library out of its own way and checks itself.

mod folder;
mod libtest;

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gpu_leak_check::__inject::Settings;
use gpu_leak_check::report::model::{CheckStatus, Finding, Report};
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sources, headline};
use gpu_leak_check::units::quantity;

use self::folder::Folder;
use crate::arguments::{EveryTest, RUNNER};
use crate::exec::watching;
use crate::exit::{Failure, Outcome, code_of};
use crate::output::{print, say};
use crate::{progress, workspace};

/// How many tests run at once, for the runner.
const JOBS: &str = "GPU_LEAK_EVERY_TEST";
/// libtest's code for tests that failed.
const FAILED: u8 = 101;

/// Has `cargo` run the test programs through this command.
///
/// # Errors
///
/// When this command's path is no text, in which cargo takes it.
pub(crate) fn through_runner(cargo: &mut Command, jobs: usize) -> Outcome<()> {
    let command = env::current_exe()
        .ok()
        .and_then(|path| path.into_os_string().into_string().ok())
        .ok_or_else(|| Failure::usage("the path of this command is no text, as cargo needs it"))?;
    let runner = serde_json::json!([command, RUNNER]);
    let target = env!("GPU_LEAK_TARGET");
    cargo
        .arg("--config")
        .arg(format!("target.{target}.runner={runner}"))
        .env(JOBS, jobs.to_string());
    Ok(())
}

/// The whole of the runner: the program's tests, and libtest's exit code.
pub(crate) fn run(asked: &EveryTest) -> Outcome<u8> {
    let program = Program::of(&asked.program);
    // A documentation's example has no tests to list: asked for them, it would run.
    if program.path.file_name() == Some(OsStr::new("rust_out")) {
        return program.as_it_is();
    }
    let Some(tests) = program.list(&[])? else {
        say(format_args!(
            "note: {} gives no list of tests as libtest does, so it runs as it is and nobody \
             watches it; `cargo gpu-leak exec` watches a whole program",
            program.path.display()
        ));
        return program.as_it_is();
    };
    let folder = Folder::of_this_run()?;
    let has = |word: &str| program.arguments.iter().any(|argument| argument == word);
    let ignored = if has("--ignored") || has("--include-ignored") {
        BTreeSet::new()
    } else {
        program.list(&["--ignored"])?.unwrap_or_default()
    };
    let to_run: Vec<_> = tests.difference(&ignored).collect();
    print(&format!(
        "\nrunning {}, each in a process of its own\n",
        quantity(tests.len() as u64, "test")
    ));
    for test in &ignored {
        print(&format!("test {test} ... ignored\n"));
    }
    let jobs = env::var(JOBS).ok().and_then(|jobs| jobs.parse().ok());
    let progress = progress::Tests::new(to_run.len());
    let ran = in_turn(&to_run, jobs.unwrap_or(1), |test| {
        progress.begins(test);
        let ran = program.run(test, &folder);
        progress.ends(test, &format!("test {test} ... {}\n", ran.outcome()));
        ran
    });
    Ok(conclude(&ran, ignored.len(), has("--show-output")))
}

/// Has `jobs` threads do `run` with each of `tests`; the outcomes in the order of the tests.
fn in_turn(tests: &[&String], jobs: usize, run: impl Fn(&str) -> Ran + Sync) -> Vec<Ran> {
    let next = AtomicUsize::new(0);
    let ran = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tests.len().max(1)) {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(test);
                    ran.lock().expect("no thread panics here").push(outcome);
                }
            });
        }
    });
    let mut ran = ran.into_inner().expect("no thread panics here");
    ran.sort_by(|left: &Ran, right| left.test.cmp(&right.test));
    ran
}

/// A test program as cargo hands it over.
struct Program<'a> {
    path: &'a Path,
    arguments: &'a [OsString],
}

impl<'a> Program<'a> {
    fn of(words: &'a [OsString]) -> Self {
        Self {
            path: Path::new(&words[0]),
            arguments: &words[1..],
        }
    }

    /// The names of its tests; none where it does not list them as libtest does.
    fn list(&self, more: &[&str]) -> Outcome<Option<BTreeSet<String>>> {
        let output = Command::new(self.path)
            .args(libtest::without_format(self.arguments))
            .args(more)
            .args(["--list", "--format", "terse"])
            .stdin(Stdio::null())
            .output()
            .map_err(|why| self.not_started(&why))?;
        let listed = String::from_utf8_lossy(&output.stdout);
        Ok(output.status.success().then(|| names(&listed)).flatten())
    }

    /// Without anything of ours.
    fn as_it_is(&self) -> Outcome<u8> {
        let status = Command::new(self.path).args(self.arguments).status();
        let status = status.map_err(|why| self.not_started(&why))?;
        Ok(code_of(status))
    }

    fn not_started(&self, why: &io::Error) -> Failure {
        Failure::usage(format!("{} cannot be started: {why}", self.path.display()))
    }

    fn run(&self, test: &str, folder: &Folder) -> Ran {
        let outcome = self.watched(test, folder);
        match outcome {
            Ok((output, report)) => Ran {
                test: test.to_owned(),
                passed: output.status.success(),
                output: [output.stdout, output.stderr].concat(),
                report,
            },
            Err(why) => Ran {
                test: test.to_owned(),
                passed: false,
                output: why.into_bytes(),
                report: None,
            },
        }
    }

    fn watched(&self, test: &str, folder: &Folder) -> Result<(Output, Option<Report>), String> {
        let settings = Settings {
            name: Some(test.to_owned()),
            again: Some(format!(
                "cargo gpu-leak test --every-test -- --exact {test}"
            )),
            ..Settings::default()
        };
        let words: Vec<OsString> = [self.path.as_os_str()]
            .into_iter()
            .chain(["--exact", test, "--include-ignored", "--test-threads=1"].map(OsStr::new))
            .chain(libtest::showing(self.arguments))
            .map(OsStr::to_owned)
            .collect();
        let captured = || {
            if libtest::is_captured(&words) {
                Stdio::piped()
            } else {
                Stdio::inherit()
            }
        };
        let command = watching(&words, &settings, &folder.runs, &folder.run);
        let mut command = command.map_err(|failure| failure.what)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(captured())
            .stderr(captured())
            .spawn();
        let child = child.map_err(|why| self.not_started(&why).what)?;
        let number = child.id();
        let output = child.wait_with_output().map_err(|why| why.to_string())?;
        Ok((output, folder.report_of(number, test)))
    }
}

/// The tests in a list of libtest's; none if it is no such list.
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

/// A test that ran.
struct Ran {
    test: String,
    passed: bool,
    output: Vec<u8>,
    report: Option<Report>,
}

impl Ran {
    fn leaks(&self) -> bool {
        let warns = env::var_os("GPU_LEAK_CHECK_ON_LEAK").is_some_and(|value| value == "warn");
        let mut findings = self.report.iter().flat_map(|report| &report.findings);
        !warns && findings.any(Finding::is_failure)
    }

    fn outcome(&self) -> String {
        match &self.report {
            _ if !self.passed => "FAILED".to_owned(),
            Some(report) if self.leaks() => format!("FAILED: {}", headline(report)),
            Some(report) if report.status.is_unmeasured() => {
                format!("ok, {}", report.status.name())
            }
            Some(report) if report.status != CheckStatus::Clean => {
                format!("ok, {}", report.status.name())
            }
            _ => "ok".to_owned(),
        }
    }
}

/// Prints what failed, and the last line; libtest's exit code.
fn conclude(ran: &[Ran], ignored: usize, shows_all: bool) -> u8 {
    let is_failed = |ran: &&Ran| !ran.passed || ran.leaks();
    if shows_all {
        print("\nsuccesses:\n");
        for ran in ran.iter().filter(|ran| !is_failed(ran)) {
            print(&format!("\n---- {} ----\n", ran.test));
            print(&String::from_utf8_lossy(&ran.output));
        }
    }
    let failed: Vec<_> = ran.iter().filter(is_failed).collect();
    if !failed.is_empty() {
        print("\nfailures:\n");
    }
    // Not this program's, which is older than what cargo has just built.
    let how = Rendering {
        sources: Sources::below(workspace::root()),
        ..Rendering::for_stderr()
    };
    for ran in &failed {
        print(&format!("\n---- {} ----\n", ran.test));
        if !ran.passed {
            print(&String::from_utf8_lossy(&ran.output));
        }
        if let Some(report) = ran.report.as_ref().filter(|_| ran.leaks()) {
            print(&text::to_string(report, &how));
        }
    }
    if !failed.is_empty() {
        print("\nfailures:\n");
        for ran in &failed {
            print(&format!("    {}\n", ran.test));
        }
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    print(&format!(
        "\ntest result: {word}. {} passed; {} failed; {ignored} ignored\n\n",
        ran.len() - failed.len(),
        failed.len()
    ));
    if failed.is_empty() { 0 } else { FAILED }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_list_is_libtest_s_or_none() {
        let listed = names("a::b: test\nwith: colon: test\nspeed: benchmark\n").expect("a list");
        assert_eq!(Vec::from_iter(listed), ["a::b", "with: colon"]);
        assert_eq!(names("").map(|names| names.len()), Some(0));
        assert!(names("training for an hour\n").is_none());
    }
}
