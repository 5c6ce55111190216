//! Runs a test in its own process, by starting the same program again for that one test.
//!
//! The child prints a line before the test and a line after it. Both contain a permit that the
//! parent has passed only to this child. What is between these lines is the test's own output,
//! which the parent prints as it arrives, so that libtest captures and shows it. The second line
//! contains the outcome. If it is missing, the process ended inside the test.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(windows)]
use std::os::windows::io::AsHandle;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{env, thread};

use serde::{Deserialize, Serialize};

use super::naming::subject_of;
use super::process::{exit_summary, late};
use super::turn::child;
use super::{body, outcome};
use crate::capture::record;
use crate::case::Case;
use crate::report::check_report::{CheckStatus, Code, Outcome, Reason, Report};
use crate::report::{Sink, Summary, headline, text};
use crate::sync::{Mutex, locked};
use crate::{exec_settings, exit};

/// libtest's exit code for failed tests.
const FAILED: i32 = 101;
/// How long to wait for the last line after the process has ended. A line that was written is in
/// the pipe, and must not be lost on a slow machine.
const LAST_LINE: Duration = Duration::from_secs(10);
/// How long to wait for error output that is still in the pipe when the process has ended.
const LAST_ERRORS: Duration = Duration::from_secs(2);

/// The contents of the child's last line.
#[derive(Debug, Serialize, Deserialize)]
struct ChildEnded {
    how: How,
    summary: Summary,
}

/// How the test ended in the child.
#[derive(Debug, Serialize, Deserialize)]
enum How {
    Passed,
    /// The test returned an error, which has been printed.
    Failed,
    /// The test or its check panicked with this message.
    Panicked(String),
}

/// Runs `case` in its own process, and ends with the same outcome.
///
/// # Panics
///
/// Panics if the test fails.
pub(crate) fn run(case: &Case) -> ExitCode {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let permit = child::new_permit(number);
    let child = command(case, &permit).and_then(|mut command| command.spawn());
    let ran = child.and_then(|child| follow(child, &permit));
    let ran = ran.unwrap_or_else(|error| {
        let why = format!(
            "cannot start a separate process for {}: {error}",
            case.name()
        );
        outcome::fail(case, why)
    });
    match ran {
        Ran {
            ended: Some(ended),
            status,
            ..
        } => {
            exit_summary::change(|summary| summary.merge(&ended.summary));
            match ended.how {
                How::Passed if status.success() => ExitCode::SUCCESS,
                // Without `isolate`, this would fail all tests of the process.
                How::Passed => outcome::fail(
                    case,
                    format!("the test passed, but its own process then ended with {status}"),
                ),
                How::Failed => ExitCode::FAILURE,
                How::Panicked(message) => resume_unwind(Box::new(message)),
            }
        }
        Ran { began: false, .. } => outcome::fail(
            case,
            "`isolate` started this program again for this test, but the test did not run there: \
             the program must support libtest's arguments, as `gpu_leak_check::main!()` does",
        ),
        Ran { status, .. } => {
            let report = aborted(case, status);
            exit_summary::change(|summary| summary.add(&report));
            outcome::fail_with(&report, headline(&report), &outcome::rendered(&report))
        }
    }
}

fn command(case: &Case, permit: &str) -> io::Result<Command> {
    let mut program = env::current_exe()?;
    if cfg!(target_os = "linux") && !program.exists() {
        // The program has been rebuilt since it was started, and this still leads to it.
        program = "/proc/self/exe".into();
    }
    let mut command = Command::new(program);
    child::pass(&mut command, case.name(), permit);
    command
        .env("GPU_LEAK_CHECK_RUN", Sink::run())
        .env_remove(exec_settings::VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(name) = record::name_for_a_child() {
        command.env(record::VARIABLE, name);
    }
    Ok(command)
}

/// What the parent has learned about the child.
struct Ran {
    began: bool,
    ended: Option<ChildEnded>,
    status: ExitStatus,
}

/// Prints the test's output until the child process ends.
fn follow(mut child: Child, permit: &str) -> io::Result<Ran> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let between = Arc::new(Mutex::new(Between::new(permit)));
    let shared = Arc::clone(&between);
    let errors_over = spawn(move || {
        each_line(stderr, |line| {
            text::tell(line.trim_end_matches('\n'));
            true
        });
    })?;
    let output_over = spawn(move || {
        each_line(stdout, |line| {
            let mut between = locked(&shared);
            if let Some(own) = between.own(line) {
                print_output(own);
            }
            between.ended.is_none()
        });
    })?;
    let status = child.wait()?;
    // The time is limited, because processes that the test has started may outlive it and hold the
    // pipes open forever.
    let _ = output_over.recv_timeout(LAST_LINE);
    let _ = errors_over.recv_timeout(LAST_ERRORS);
    let mut between = locked(&between);
    Ok(Ran {
        began: between.began,
        ended: between.ended.take(),
        status,
    })
}

/// Runs `work` on a thread that shares libtest's output capture. The channel closes when `work` is
/// done.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<Receiver<()>> {
    let (done, over) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        work();
        drop(done);
    })?;
    Ok(over)
}

/// Passes each line to `take` until `take` returns false.
fn each_line(from: Option<impl Read>, mut take: impl FnMut(&str) -> bool) {
    let Some(from) = from else {
        return;
    };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // An error means that the pipe is broken and that nothing more can arrive.
    while from
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length != 0)
    {
        if !take(&String::from_utf8_lossy(&line)) {
            return;
        }
        line.clear();
    }
}

#[expect(
    clippy::print_stdout,
    reason = "libtest captures this output and shows it with the test"
)]
fn print_output(text: &str) {
    print!("{text}");
}

/// Finds the test's own output between the child's two lines.
struct Between {
    first: String,
    last: String,
    began: bool,
    ended: Option<ChildEnded>,
}

impl Between {
    fn new(permit: &str) -> Self {
        Self {
            first: first_line(permit),
            last: last_line(permit),
            began: false,
            ended: None,
        }
    }

    /// Returns the part of this line that is the test's own output.
    fn own<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if self.ended.is_some() {
            return None;
        }
        if !self.began {
            // libtest has printed the test's name before the first line, without a line break.
            self.began = line.trim_end().ends_with(&self.first);
            return None;
        }
        let Some((own, carried)) = line.split_once(&self.last) else {
            return Some(line);
        };
        self.ended = serde_json::from_str(carried).ok();
        (!own.is_empty()).then_some(own)
    }
}

fn first_line(permit: &str) -> String {
    format!("[gpu-leak-check {permit} begins]")
}

fn last_line(permit: &str) -> String {
    format!("[gpu-leak-check {permit} ended]")
}

/// Runs the test. In a process that a parent started for one test, also reports to the parent how
/// the test ends, and exits.
pub(crate) fn report_to_parent(test: impl FnOnce() -> ExitCode) -> ExitCode {
    let Some(permit) = permit() else {
        return test();
    };
    // If a runner kills the parent after a timeout, it intends to kill the test.
    if let Some(parent) = child::parent(permit) {
        exit::end_with_parent(parent);
    }
    // The test may close or redirect its standard output.
    let output = own_stdout().ok();
    print_uncaptured(output.as_ref(), &format!("{}\n", first_line(permit)));
    let end = catch_unwind(AssertUnwindSafe(test));
    let how = match &end {
        Ok(code) if *code == ExitCode::SUCCESS => How::Passed,
        Ok(_) => How::Failed,
        Err(payload) => How::Panicked(body::message(&**payload).unwrap_or("panicked").to_owned()),
    };
    let code = match how {
        How::Passed => 0,
        How::Failed | How::Panicked(_) => FAILED,
    };
    // The parent prints the summary, so nothing may be left for the end of this process.
    late::add_late_frees();
    let ended = ChildEnded {
        how,
        summary: exit_summary::take(),
    };
    let carried = serde_json::to_string(&ended).unwrap_or_default();
    print_uncaptured(
        output.as_ref(),
        &format!("{}{carried}\n", last_line(permit)),
    );
    // Only this test was meant to run. Without this exit, a test that is registered twice would run
    // again.
    std::process::exit(code)
}

/// Returns the parent's permit, but only for the first check of this process.
fn permit() -> Option<&'static str> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let permit = child::permit()?;
    (TAKEN.fetch_add(1, Ordering::Relaxed) == 0).then_some(permit)
}

/// Returns another handle of the standard output.
fn own_stdout() -> io::Result<File> {
    #[cfg(unix)]
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(output.into())
}

/// Prints a line, bypassing libtest's capture. What was printed before stays in front of it.
fn print_uncaptured(output: Option<&File>, line: &str) {
    // The lock keeps other threads from printing in the middle of the line.
    let mut stdout = io::stdout().lock();
    // An error means that the parent has ended, so there is no reader.
    let _ = stdout.flush();
    exit::flush_output_of_c();
    let _ = output.map(|mut output| output.write_all(line.as_bytes()));
}

fn aborted(case: &Case, status: ExitStatus) -> Report {
    Report {
        reason: Some(Reason::new(
            Code::ProcessEnded,
            format!("the process ended inside the test ({status})"),
            "read the test's own output above; to see where the process ended, run the command \
             below in a debugger",
        )),
        outcome: Some(Outcome::Fail),
        ..Report::about(subject_of(case), CheckStatus::Aborted)
    }
}

#[cfg(test)]
mod tests {
    use super::{Between, How, first_line, last_line};

    #[test]
    fn output_between_the_two_lines_is_the_test_s_own() {
        let mut between = Between::new("7-1");
        let head = format!("test a ... {}\n", first_line("7-1"));
        let carried = r#"{"how":"Passed","summary":{"statuses":{},"listed":[],"reasons":[],"unowned":{"count":0,"bytes":0},"allowed":{"count":0,"bytes":0},"notes":[]}}"#;
        let tail = format!("no end of line{}{carried}\n", last_line("7-1"));
        let lines = ["\n", "running 1 test\n", &head, "own\n", &tail, "ok\n"];
        let own: Vec<_> = lines.iter().filter_map(|line| between.own(line)).collect();
        assert_eq!(own, ["own\n", "no end of line"]);
        assert!(
            between
                .ended
                .is_some_and(|ended| matches!(ended.how, How::Passed))
        );
    }

    #[test]
    fn the_marker_of_another_process_is_the_test_s_own_output() {
        let mut between = Between::new("7-1");
        between.own(&first_line("7-1"));
        let other = last_line("8-1");
        assert_eq!(between.own(&other), Some(&*other));
        assert!(between.ended.is_none());
    }
}
