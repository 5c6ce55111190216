//! How many tests the runner runs in this process, and what else may be active during a run.
//!
//! Nothing else can be active if the runner runs one test at a time and no unchecked test has left
//! a thread behind, or if every other test is waiting at the gate. The threads without a scope are
//! known: the initial thread, libtest's threads, threads that unchecked tests left behind, and the
//! driver's own threads, which do nothing on their own. A thread that a checked test left behind,
//! often one of a pool, counts as active only if it has run in the meantime.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{env, thread};

use gpu_leak_interpose as interpose;

use super::child;
use super::gate::Turn;
use super::libtest::Arguments;
use crate::capture::thread::is_first_thread;
use crate::check::scopes::tree::is_of_an_ended_check;
use crate::check::threads::{can_act, count_threads, list_threads, this_thread, time_of_waiting};
use crate::judge::Others;
use crate::ledger::ScopeId;
use crate::sync::{Mutex, locked};

static CONCURRENCY: OnceLock<Concurrency> = OnceLock::new();

/// How many tests a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    /// Only one test.
    OneTest,
    /// Several tests, one after the other.
    OneAtATime,
    /// Several tests, perhaps at the same time.
    Several,
}

/// Whether this process runs only one test.
pub(crate) fn is_isolated() -> bool {
    static BY_NEXTEST: OnceLock<bool> = OnceLock::new();
    child::permit().is_some()
        || *BY_NEXTEST.get_or_init(|| {
            let arguments = Arguments::of(arguments());
            is_started_by_nextest(&arguments, &variable)
        })
}

/// Whether nextest started this process for one test. The variables that nextest sets do not prove
/// this on their own, because processes that the test starts inherit them.
fn is_started_by_nextest(
    arguments: &Arguments,
    variable: &impl Fn(&str) -> Option<String>,
) -> bool {
    let [test] = &arguments.filters[..] else {
        return false;
    };
    let named = variable("NEXTEST_TEST_NAME");
    variable("NEXTEST").is_some()
        && arguments.exact
        // Older versions of nextest do not provide the name.
        && named.is_none_or(|named| named == *test)
}

fn arguments() -> impl Iterator<Item = String> {
    // An argument that is not valid UTF-8 is not an option of libtest.
    let arguments = env::args_os().skip(1);
    arguments.map(|argument| argument.to_string_lossy().into_owned())
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Records that this process is a program with a single check, regardless of its arguments.
pub(crate) fn is_one_program() {
    // An error means that a check has already determined the value, which can no longer change.
    let _ = CONCURRENCY.set(Concurrency::OneTest);
}

/// Whether the runner runs one test at a time in this process.
fn one_test_at_a_time() -> bool {
    concurrency() != Concurrency::Several
}

/// Returns how many tests the runner runs in this process.
fn concurrency() -> Concurrency {
    *CONCURRENCY.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        decide(arguments(), variable, cores)
    })
}

/// Determines the concurrency from libtest's arguments and from variables. nextest starts one
/// process per test, regardless of `RUST_TEST_THREADS`.
fn decide(
    arguments: impl Iterator<Item = String>,
    variable: impl Fn(&str) -> Option<String>,
    cores: usize,
) -> Concurrency {
    let arguments = Arguments::of(arguments);
    let threads = arguments.threads;
    let is_one = arguments.exact && arguments.filters.len() == 1;
    if threads.is_none() && is_started_by_nextest(&arguments, &variable) {
        return Concurrency::OneTest;
    }
    let by_variable = || variable("RUST_TEST_THREADS")?.parse().ok();
    match threads.or_else(by_variable) {
        // This holds even if the arguments select only one test.
        Some(2_usize..) => Concurrency::Several,
        _ if is_one => Concurrency::OneTest,
        Some(_) => Concurrency::OneAtATime,
        None if cores == 1 => Concurrency::OneAtATime,
        None => Concurrency::Several,
    }
}

/// How many threads without a scope have begun to run a check, and how many have finished one. In
/// between, such a thread does nothing else.
static RUNNERS_BEGAN: AtomicU64 = AtomicU64::new(0);
static RUNNERS_ENDED: AtomicU64 = AtomicU64::new(0);

/// How many threads without a scope have reached the gate or have run a check. Each thread is
/// counted once.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

/// The threads of libtest whose checks have ended. Each of them is about to end.
static ENDING: Mutex<Vec<i32>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether libtest has started this thread for one test, so that it ends after its check.
    static IS_LIBTESTS: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is running a check.
    static IS_RUNNER: Cell<bool> = const { Cell::new(false) };
    /// Whether [`ARRIVED`] counts this thread.
    static HAS_ARRIVED: Cell<bool> = const { Cell::new(false) };
}

/// Records that this thread has reached the gate, or runs a check without waiting there.
pub(crate) fn arrive() {
    if is_counted_thread() && !HAS_ARRIVED.replace(true) {
        ARRIVED.fetch_add(1, SeqCst);
    }
}

/// Records that libtest has started this thread for one test.
pub(crate) fn is_of_one_test() {
    IS_LIBTESTS.set(true);
}

/// Marks a thread that is running a check and therefore does nothing else.
pub(crate) struct Runner {
    /// Only the marked thread itself may remove the mark.
    _not_send: PhantomData<*const ()>,
}

impl Runner {
    /// Marks this thread, which is about to run a check. Returns `None` if the thread need not be
    /// counted.
    pub(crate) fn begin() -> Option<Self> {
        arrive();
        is_counted_thread().then(|| {
            IS_RUNNER.set(true);
            RUNNERS_BEGAN.fetch_add(1, SeqCst);
            Self {
                _not_send: PhantomData,
            }
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        IS_RUNNER.set(false);
        if IS_LIBTESTS.get()
            && let Some(this) = this_thread()
        {
            let mut ending = locked(&ENDING);
            ending.retain(|thread| can_act(*thread));
            ending.push(this);
        }
        RUNNERS_ENDED.fetch_add(1, SeqCst);
    }
}

/// Whether this thread must be counted separately. This is unnecessary for the initial thread,
/// because it always exists, for a thread with a scope, which is counted with its scope, and for a
/// thread that is already counted because it runs a check.
fn is_counted_thread() -> bool {
    !is_first_thread() && interpose::token() == 0 && !IS_RUNNER.get()
}

/// How long a check waits for a thread that is being started, or that is about to end, because both
/// may take long on a busy machine. After that time, the check assumes that it is not alone.
const LONGEST_CHANGE: Duration = Duration::from_secs(1);

/// For how long threads are counted again if threads begin or end while they are being counted.
const LONGEST_COUNT: Duration = Duration::from_millis(10);

/// What the process was doing when a run began.
#[derive(Debug)]
pub(crate) struct ProcessAtBegin {
    /// Whether only threads of the check, and those in `left`, could be active.
    is_alone: bool,
    threads: ThreadsWithoutScope,
    /// The threads of checks that have ended, with the time for which each has run.
    left: Vec<(i32, Option<u64>)>,
}

/// Counts of threads without a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadsWithoutScope {
    started: u64,
    arrived: u64,
    waiting: u64,
    runners_began: u64,
    runners_ended: u64,
}

impl ThreadsWithoutScope {
    fn now(turn: &Turn<'_>) -> Self {
        Self {
            // This is read before the number of threads that were started, so that a thread that
            // has arrived is included in that number.
            arrived: ARRIVED.load(SeqCst),
            waiting: turn.waiting(),
            runners_ended: RUNNERS_ENDED.load(SeqCst),
            runners_began: RUNNERS_BEGAN.load(SeqCst),
            started: interpose::started_without_token(),
        }
    }
}

impl ProcessAtBegin {
    /// Examines the process before a body runs. `earlier` contains the scopes of the check's
    /// earlier runs.
    pub(crate) fn now(turn: &Turn<'_>, earlier: &[ScopeId]) -> Self {
        let begin = Instant::now();
        let mut settled = begin;
        loop {
            let threads = ThreadsWithoutScope::now(turn);
            // If no thread is being started, all threads that were started exist by now.
            let is_starting = interpose::is_starting();
            let is_alone = is_alone(threads);
            let is_changing = is_starting || is_alone == Some(false) && is_any_ending();
            // A thread that starts while the others are being counted may be missing from every
            // count, and so may a thread whose check ends. If only one test runs at all, the counts
            // are not needed.
            let is_known = concurrency() == Concurrency::OneTest
                || (!is_changing
                    && is_alone.is_some()
                    && ThreadsWithoutScope::now(turn) == threads);
            if is_changing {
                settled = Instant::now();
            }
            if is_known || begin.elapsed() > LONGEST_CHANGE || settled.elapsed() > LONGEST_COUNT {
                return Self {
                    is_alone: is_known && is_alone == Some(true),
                    threads,
                    left: threads_of_ended_checks(earlier),
                };
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Whether nothing but the check could be active.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone && self.left.is_empty()
    }

    /// Returns which other activity there has been, or may have been, until now.
    pub(crate) fn until_now(&self, turn: &Turn<'_>) -> Others {
        Others {
            checks: turn.met_another(),
            anything: !(self.is_alone && self.nobody_came(turn) && self.are_idle()),
        }
    }

    /// Whether no thread of an ended check has run since the run began.
    fn are_idle(&self) -> bool {
        let mut left = self.left.iter();
        left.all(|(thread, before)| before.is_some() && time_of_waiting(*thread) == *before)
    }

    /// Whether every thread that was started in the meantime is waiting at the gate. A thread that
    /// reached the gate for the first time must be one of these: if it had existed when the run
    /// began, the check would not have been alone.
    fn nobody_came(&self, turn: &Turn<'_>) -> bool {
        let now = ThreadsWithoutScope::now(turn);
        let started = now.started - self.threads.started;
        let is_own =
            concurrency() == Concurrency::OneTest || started <= now.arrived - self.threads.arrived;
        !turn.met_another() && is_own
    }
}

/// Whether only the thread that runs the check and threads with a scope can be active; `None` if
/// threads began or ended while they were being counted.
fn is_alone(threads: ThreadsWithoutScope) -> Option<bool> {
    // No other test could have started a thread.
    if concurrency() == Concurrency::OneTest {
        return Some(true);
    }
    if !interpose::inherits() {
        return Some(one_test_at_a_time());
    }
    // If libtest starts a test later, the number of threads that were started changes.
    let runners = threads.runners_began - threads.runners_ended;
    // This thread is counted only for its own check. Other checks must not assume that it is idle,
    // because it may be opening a scope, in which it will continue to work.
    let own = 1 + runners + threads.waiting + u64::from(is_counted_thread());
    let with_scope = threads_with_scope();
    let Some(all) = count_threads() else {
        return Some(one_test_at_a_time());
    };
    // The count is sufficient if no thread with a scope has begun or ended in the meantime.
    if all <= own + with_scope.len() as u64 && with_scope == threads_with_scope() {
        return Some(true);
    }
    // Threads with a scope are read after the list of all threads. A thread that ends in between
    // therefore counts as a thread without a scope, and never the other way round.
    let all = list_threads()?.into_iter();
    let with_scope = threads_with_scope();
    let mut others = all.filter(|thread| !with_scope.contains(thread) && can_act(*thread));
    // The search ends at the first thread too many, because looking at a thread takes several
    // system calls.
    Some(others.nth(own as usize).is_none())
}

/// Whether a thread of libtest still exists although its check has ended. Until it ends, destructors
/// of its thread-locals may free or allocate something.
fn is_any_ending() -> bool {
    let mut ending = locked(&ENDING);
    ending.retain(|thread| can_act(*thread));
    !ending.is_empty()
}

/// Returns the live threads with a scope, and those that drivers have started. A thread that has
/// just begun may be missing.
fn threads_with_scope() -> Vec<i32> {
    let threads = interpose::marked_threads().into_iter();
    threads.map(|thread| thread.id).collect()
}

/// Returns the threads of checks that have ended, each with its [`time_of_waiting`].
fn threads_of_ended_checks(earlier: &[ScopeId]) -> Vec<(i32, Option<u64>)> {
    // No other test could have started a thread.
    if concurrency() == Concurrency::OneTest {
        return Vec::new();
    }
    let threads = interpose::marked_threads().into_iter();
    let left = threads.filter(|thread| {
        // The token of a driver's own thread does not fit in the ID of a scope.
        let scope = u32::try_from(thread.token).ok().filter(|scope| *scope != 0);
        scope.is_some_and(|scope| is_of_an_ended_check(ScopeId(scope), earlier))
    });
    // A check may begin on such a thread, which then belongs to that check.
    left.filter(|thread| Some(thread.id) != this_thread())
        .map(|thread| (thread.id, time_of_waiting(thread.id)))
        .collect()
}

#[cfg(test)]
mod tests;
