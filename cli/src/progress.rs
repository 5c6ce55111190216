//! The line of progress while programs run: on a terminal alone, for a log has no use for it.
//!
//! cargo and libtest tell their own progress, so `test` and its like add none. Where each test has a
//! process of its own nobody else prints, and a line that is written over says which runs. A program
//! under `exec` writes where and when it likes, so there it is whole lines, few and only if what is
//! held has changed.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpu_leak_check::report::{escape, json};
use gpu_leak_check::units::{count, quantity, size};

use crate::output::{print, say};

/// Between two lines about a program.
const EVERY: Duration = Duration::from_secs(10);
/// Back to the line's beginning, and what stood in it away.
const CLEAR: &str = "\r\x1b[K";

/// Tests that run, each in a process of its own.
#[derive(Debug)]
pub(crate) struct Tests {
    width: Option<usize>,
    state: Mutex<Standing>,
}

#[derive(Debug)]
struct Standing {
    all: usize,
    done: usize,
    running: Vec<String>,
}

impl Tests {
    pub(crate) fn new(all: usize) -> Self {
        let size = io::stderr().is_terminal().then(|| {
            let size = terminal_size::terminal_size_of(io::stderr());
            size.map_or(80, |(terminal_size::Width(columns), _)| columns.into())
        });
        Self {
            width: size,
            state: Mutex::new(Standing {
                all,
                done: 0,
                running: Vec::new(),
            }),
        }
    }

    /// A test's process is about to start.
    pub(crate) fn begins(&self, test: &str) {
        self.change("", |standing| standing.running.push(test.to_owned()));
    }

    /// It has ended, of which `line` tells.
    pub(crate) fn ends(&self, test: &str, line: &str) {
        self.change(line, |standing| {
            standing.running.retain(|running| running != test);
            standing.done += 1;
        });
    }

    fn change(&self, line: &str, how: impl FnOnce(&mut Standing)) {
        let mut standing = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut standing);
        let Some(width) = self.width else {
            print(line);
            return;
        };
        let mut stderr = io::stderr();
        // Err: nobody looks.
        let _ = write!(stderr, "{CLEAR}");
        print(line);
        let _ = write!(stderr, "{}", standing.line(width));
    }
}

impl Standing {
    /// `12 of 40: train::a and 3 others`, in one line of the terminal.
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
        // A full last column would break the line.
        line.chars().take(width.saturating_sub(1)).collect()
    }
}

/// Reports the progress of a program under `exec` and of what it starts, until it is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    reporter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Program {
    /// Reports the snapshots in `folder`, if any are to be taken and somebody looks.
    pub(crate) fn watch(folder: PathBuf, takes_snapshots: bool) -> Self {
        if !takes_snapshots || !io::stderr().is_terminal() {
            return Self { reporter: None };
        }
        let (ends, ended) = mpsc::channel();
        let began = Instant::now();
        let thread = thread::spawn(move || {
            let mut last = None;
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let held = held(&folder);
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
            // Err: it panicked, and has said so.
            let _ = thread.join();
        }
    }
}

/// How many resources and bytes the newest snapshots of all processes have; none without one.
fn held(folder: &Path) -> Option<(u64, u64)> {
    let files = fs::read_dir(folder).ok()?.flatten();
    let files = files.map(|file| file.path());
    let runs = files.filter(|file| file.extension().is_some_and(|end| end == "jsonl"));
    let snapshots = runs.filter_map(|file| json::read(&file).ok()?.snapshot);
    let held = snapshots.map(|snapshot| {
        let findings = &snapshot.report.findings;
        let count = findings
            .iter()
            .map(|it| it.count)
            .fold(0, u64::saturating_add);
        let bytes = findings
            .iter()
            .map(|it| it.bytes)
            .fold(0, u64::saturating_add);
        (count, bytes)
    });
    held.reduce(|left, right| {
        (
            left.0.saturating_add(right.0),
            left.1.saturating_add(right.1),
        )
    })
}

/// `gpu-leak-check: after 12 s: 1.20 GiB in 431 resources held`
fn sentence(after: Duration, (resources, bytes): (u64, u64)) -> String {
    format!(
        "gpu-leak-check: after {} s: {} in {} held",
        count(after.as_secs()),
        size(bytes),
        quantity(resources, "resource")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Standing, sentence};

    #[test]
    fn the_running_tests_are_told_in_one_line() {
        let mut standing = Standing {
            all: 40,
            done: 11,
            running: Vec::new(),
        };
        assert_eq!(standing.line(80), "");
        standing.running.push("train::a\n".to_owned());
        assert_eq!(standing.line(80), "12 of 40: train::a\\u{a}");
        standing.running.push("train::b".to_owned());
        assert_eq!(standing.line(80), "12 of 40: train::a\\u{a} and 1 other");
        assert_eq!(standing.line(10), "12 of 40:");
    }

    #[test]
    fn what_a_program_holds_is_a_sentence() {
        let line = sentence(Duration::from_millis(12_700), (431, 3 << 29));
        assert_eq!(
            line,
            "gpu-leak-check: after 12 s: 1.50 GiB in 431 resources held"
        );
    }
}
