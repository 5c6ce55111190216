//! Shows progress while programs run, on a terminal only.
//!
//! cargo and libtest show their own progress, so `test`, `nextest`, `run` and `bench` add none. If
//! each test has its own process, one line is overwritten with the names of the running tests. A
//! program under `exec` may print anything at any time, so progress there consists of a few whole
//! lines, printed only if the usage has changed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpu_leak_check::__command::run_files;
use gpu_leak_check::report::{escape, run_file};
use gpu_leak_check::units::{count, quantity, size};

use crate::output::{Stream, print, say};

/// How often a line about a program may be printed.
const INTERVAL: Duration = Duration::from_secs(10);
/// Moves the cursor to the beginning of the line and clears the line.
const CLEAR: &str = "\r\x1b[K";

/// The progress of tests that each run in a separate process.
#[derive(Debug)]
pub(crate) struct Tests {
    width: Option<usize>,
    state: Mutex<TestCounts>,
}

#[derive(Debug)]
struct TestCounts {
    all: usize,
    done: usize,
    running: Vec<String>,
}

impl Tests {
    pub(crate) fn new(all: usize) -> Self {
        let stream = Stream::Error;
        Self {
            width: stream.is_terminal().then(|| stream.width()),
            state: Mutex::new(TestCounts {
                all,
                done: 0,
                running: Vec::new(),
            }),
        }
    }

    /// Records that the process of a test is about to start.
    pub(crate) fn begins(&self, test: &str) {
        self.change("", |counts| counts.running.push(test.to_owned()));
    }

    /// Records that the process of a test has ended, and prints `line` as its result.
    pub(crate) fn ends(&self, test: &str, line: &str) {
        self.change(line, |counts| {
            counts.running.retain(|running| running != test);
            counts.done += 1;
        });
    }

    fn change(&self, line: &str, how: impl FnOnce(&mut TestCounts)) {
        let mut counts = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut counts);
        let Some(width) = self.width else {
            print(line);
            return;
        };
        let mut stderr = io::stderr();
        // An error means that standard error is closed.
        let _ = write!(stderr, "{CLEAR}");
        print(line);
        let _ = write!(stderr, "{}", counts.line(width));
    }
}

impl TestCounts {
    /// Returns, for example, `12 of 40: train::a and 3 others`, shortened to one line of the
    /// terminal.
    fn line(&self, width: usize) -> String {
        let Some(first) = self.running.first() else {
            return String::new();
        };
        let others = match self.running.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", quantity(more as u64, "other")),
        };
        let line = format!(
            "{} of {}: {}{others}",
            count(self.done as u64 + 1),
            count(self.all as u64),
            escape::name(first)
        );
        // A character in the last column would make some terminals break the line.
        line.chars().take(width.saturating_sub(1)).collect()
    }
}

/// Reports the progress of a program under `exec` and its child processes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    reporter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Program {
    /// Reports the snapshots in `directory`, if any are taken and standard error is a terminal.
    pub(crate) fn watch(directory: PathBuf, takes_snapshots: bool) -> Self {
        if !takes_snapshots || !Stream::Error.is_terminal() {
            return Self { reporter: None };
        }
        let (ends, ended) = mpsc::channel();
        let began = Instant::now();
        let thread = thread::spawn(move || {
            let mut last = None;
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let held = held(&directory);
                if held.is_some() && held != last {
                    last = held;
                    say(sentence(began.elapsed(), held.unwrap_or_default()));
                }
            }
        });
        Self {
            reporter: Some((ends, thread)),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.reporter.take() {
            drop(ends);
            // An error means that the thread has panicked, and the panic has already been printed.
            let _ = thread.join();
        }
    }
}

/// Returns how many resources and bytes the processes hold according to their newest snapshots.
/// Returns `None` if there are no snapshots.
fn held(directory: &Path) -> Option<(u64, u64)> {
    let files = run_files(directory).ok()?;
    let snapshots = files
        .iter()
        .filter_map(|file| run_file::read(file).ok()?.snapshot);
    let held = snapshots.map(|snapshot| {
        let findings = snapshot.report.findings.iter();
        let held = findings.map(|finding| (finding.count, finding.bytes));
        held.fold((0, 0), add)
    });
    held.reduce(add)
}

fn add(left: (u64, u64), right: (u64, u64)) -> (u64, u64) {
    let count = left.0.saturating_add(right.0);
    (count, left.1.saturating_add(right.1))
}

/// Returns, for example, `gpu-leak-check: after 12 s: holding 1.20 GiB in 431 resources`.
fn sentence(after: Duration, (resources, bytes): (u64, u64)) -> String {
    format!(
        "gpu-leak-check: after {} s: holding {} in {}",
        count(after.as_secs()),
        size(bytes),
        quantity(resources, "resource")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{TestCounts, sentence};

    #[test]
    fn the_running_tests_are_listed_in_one_line() {
        let mut counts = TestCounts {
            all: 40,
            done: 11,
            running: Vec::new(),
        };
        assert_eq!(counts.line(80), "");
        counts.running.push("train::a\n".to_owned());
        assert_eq!(counts.line(80), "12 of 40: train::a\\u{a}");
        counts.running.push("train::b".to_owned());
        assert_eq!(counts.line(80), "12 of 40: train::a\\u{a} and 1 other");
        assert_eq!(counts.line(10), "12 of 40:");
    }

    #[test]
    fn memory_that_a_program_holds_is_shown_as_a_sentence() {
        let line = sentence(Duration::from_millis(12_700), (431, 3 << 29));
        assert_eq!(
            line,
            "gpu-leak-check: after 12 s: holding 1.50 GiB in 431 resources"
        );
    }
}
