//! Who else may have been at work in this process during a run.
//!
//! Nothing else can run where the runner runs one test at a time and no earlier test has left a
//! thread, and where every other test waits at the gate. What is known is how many threads have no
//! scope: the first one, libtest's, those that unchecked tests left, and the driver's own, which do
//! nothing by themselves.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gpu_leak_interpose as threads;

use super::company::{Company, Concurrency, concurrency, one_test_at_a_time};
use crate::capture::thread::is_first_thread;
use crate::judge::Others;
use crate::ledger;

/// How many threads without a scope run a check and wait for its end.
static RUNNERS: AtomicU64 = AtomicU64::new(0);

/// While it lives, this thread runs a check: it does nothing of its own.
#[derive(Debug)]
pub(crate) struct Runner {
    is_counted: bool,
}

impl Runner {
    /// This thread begins a check.
    pub(crate) fn new() -> Self {
        // The first thread is always there, and one that works for a scope is that scope's.
        let is_counted = !is_first_thread() && threads::token() == 0;
        if is_counted {
            RUNNERS.fetch_add(1, Ordering::Relaxed);
        }
        Self { is_counted }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.is_counted {
            RUNNERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// How often the threads are counted again while one is being started: some 10 ms in all. Beyond that
/// the check takes itself not to be alone.
const MOST_LOOKS: u32 = 100;

/// What was known when a run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtBegin {
    /// Whether no thread could do anything but the check's own.
    is_alone: bool,
    waiting: u64,
    started: u64,
    unowned: u64,
}

impl AtBegin {
    /// Looks around before a body runs.
    pub(crate) fn now(company: Company<'_>) -> Self {
        let unowned = ledger::live().unowned();
        let mut looks = 0;
        loop {
            let counts = || (threads::started_without_token(), company.waiting());
            let (started, waiting) = counts();
            // Those of `started` exist by now, if none is.
            let is_starting = threads::is_starting_without_token();
            let is_alone = is_alone(waiting);
            // A thread that comes while the others are counted may be missing in every count. Where one
            // test is all that runs, nobody needs the counts.
            let is_known = concurrency() == Concurrency::OneTest
                || (!is_starting && counts() == (started, waiting));
            if is_known || looks == MOST_LOOKS {
                return Self {
                    is_alone: is_alone && is_known,
                    waiting,
                    started,
                    unowned,
                };
            }
            looks += 1;
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Whether nothing but the check could do anything.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Who else was there, or may have been, until now.
    pub(crate) fn until_now(&self, company: Company<'_>) -> Others {
        Others {
            checks: company.met_a_check(),
            anything: !(self.is_alone && self.nobody_came(company)),
            seen: ledger::live().unowned() != self.unowned,
        }
    }

    /// How many records were ever created outside every scope before the run.
    pub(crate) fn unowned(&self) -> u64 {
        self.unowned
    }

    /// Whether every thread that was started meanwhile waits at the gate.
    fn nobody_came(&self, company: Company<'_>) -> bool {
        // In this order: one that waits by then was started before.
        let came = company.waiting().saturating_sub(self.waiting);
        let started = threads::started_without_token() - self.started;
        let is_own = concurrency() == Concurrency::OneTest || started <= came;
        !company.met_a_check() && is_own
    }
}

/// Whether no thread can do anything but the one that runs the check and those of scopes.
fn is_alone(waiting: u64) -> bool {
    // Whatever runs there, this test has brought about.
    if concurrency() == Concurrency::OneTest {
        return true;
    }
    if !threads::inherits() {
        return one_test_at_a_time();
    }
    let Some(all) = count_threads() else {
        return one_test_at_a_time();
    };
    let scoped = threads::all_live() as u64;
    let own = 1 + RUNNERS.load(Ordering::Relaxed);
    let others = |all: u64| all.saturating_sub(scoped + own + waiting);
    // A test that libtest starts from now on is seen by the number of threads that were started.
    others(all) == 0 || others(living_threads().len() as u64) <= drivers_own()
}

/// How many threads this process has; none where nobody tells.
#[cfg(target_os = "linux")]
fn count_threads() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    // The kernel counts a thread as a link of this folder; two are the folder's own.
    let links = fs::metadata("/proc/self/task").ok()?.nlink();
    links.checked_sub(2)
}

#[cfg(not(target_os = "linux"))]
fn count_threads() -> Option<u64> {
    None
}

/// The threads of this process that can still do something. The kernel counts a thread for a moment
/// after it was joined.
fn living_threads() -> Vec<String> {
    /// `PF_EXITING`, as Linux has it.
    const EXITING: u64 = 4;
    let is_living = |thread: &String| {
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        // Behind the name, which may have any letters: state, five numbers, flags.
        let flags = status.ok().and_then(|status| {
            let (_, fields) = status.rsplit_once(") ")?;
            fields.split(' ').nth(6)?.parse::<u64>().ok()
        });
        flags.is_some_and(|flags| flags & EXITING == 0)
    };
    threads_of_this_process()
        .into_iter()
        .filter(is_living)
        .collect()
}

fn threads_of_this_process() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// How many threads bear the names of a driver's: they do nothing that nobody asked for.
fn drivers_own() -> u64 {
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = threads_of_this_process();
    known.retain(|thread, _| now.contains(thread));
    for thread in now {
        known.entry(thread).or_insert_with_key(|thread| {
            let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
            let name = name.unwrap_or_default();
            ["cuda", "llvmpipe"]
                .iter()
                .any(|of_driver| name.starts_with(of_driver))
        });
    }
    known.values().filter(|is_drivers| **is_drivers).count() as u64
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, thread};

    use super::living_threads;

    fn own_number() -> String {
        let link = fs::read_link("/proc/thread-self").expect("a thread");
        let number = link.file_name().expect("its number");
        number.to_string_lossy().into_owned()
    }

    #[test]
    fn a_thread_that_was_joined_lives_no_longer() {
        for _ in 0..1000 {
            let joined = thread::spawn(own_number).join().expect("a number");
            assert!(!living_threads().contains(&joined));
        }
        assert!(living_threads().contains(&own_number()));
    }
}
