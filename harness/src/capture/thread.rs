//! Numbers and names threads for the ledger and reports.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::ledger::event::ThreadNumber;
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, locked};

static LAST: AtomicU32 = AtomicU32::new(0);
/// The names by number, from 1.
static NAMES: Mutex<Vec<Option<Box<str>>>> = Mutex::new(Vec::new());

/// The threads that created something outside every check.
static OUTSIDE: Mutex<Vec<ThreadNumber>> = Mutex::new(Vec::new());

/// The relation of a thread to checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has created nothing outside a check, and has begun no check.
    Unknown,
    /// It has created something outside every check.
    Outside,
    /// It has begun a check.
    Checks,
}

thread_local! {
    static STANDING: Cell<Standing> = const { Cell::new(Standing::Unknown) };

    /// 0 until the thread first enters the harness. It has no destructor, because a wrapper can be
    /// called from the destructor of another thread-local.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// Returns the number of this thread.
#[inline]
pub(crate) fn number() -> ThreadNumber {
    match NUMBER.get() {
        0 => first_number(),
        known => ThreadNumber(known),
    }
}

#[cold]
fn first_number() -> ThreadNumber {
    let _quiet = quiet();
    let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    NUMBER.set(new);
    register(new, system_name());
    ThreadNumber(new)
}

/// Records that this thread, `thread`, creates something outside every check.
pub(crate) fn creates_outside(thread: ThreadNumber) {
    if STANDING.get() == Standing::Unknown {
        let _quiet = quiet();
        STANDING.set(Standing::Outside);
        locked(&OUTSIDE).push(thread);
        // libtest runs each test on a thread with its name, which users need in full.
        if thread_name(thread).ends_with(CUT) {
            register(thread.0, full_name());
        }
    }
}

/// Records that this thread begins a check, so that resources created around the check do not make
/// it an unchecked test.
pub(crate) fn begins_a_check() {
    if STANDING.replace(Standing::Checks) == Standing::Outside {
        let _quiet = quiet();
        let this = number();
        locked(&OUTSIDE).retain(|thread| *thread != this);
    }
}

/// Returns the names of the threads that created something outside every check and began none,
/// except the initial thread. They are the threads of tests, and threads that these started.
pub(crate) fn outside_every_check() -> Vec<String> {
    let threads = locked(&OUTSIDE).clone();
    let mut names: Vec<_> = threads.into_iter().map(thread_name).collect();
    names.retain(|name| name != "main");
    names.sort();
    names.dedup();
    names
}

/// Whether this is the process's initial thread.
pub(crate) fn is_first_thread() -> bool {
    thread_local! {
        static IS_FIRST: Cell<Option<bool>> = const { Cell::new(None) };
    }
    if let Some(known) = IS_FIRST.get() {
        return known;
    }
    let is_first = read_whether_first().unwrap_or(true);
    IS_FIRST.set(Some(is_first));
    is_first
}

/// Reads whether this is the initial thread; `None` without `/proc`.
fn read_whether_first() -> Option<bool> {
    // `PID/task/TID`: both are equal for the initial thread.
    let this = std::fs::read_link("/proc/thread-self").ok()?;
    let mut parts = this.iter();
    Some(parts.next() == parts.next_back())
}

/// Returns the name of a thread, even after its end: its own name, or `thread 7`.
pub(crate) fn thread_name(thread: ThreadNumber) -> String {
    let _quiet = quiet();
    let names = locked(&NAMES);
    let name = (thread.0 as usize)
        .checked_sub(1)
        .and_then(|index| names.get(index)?.as_deref());
    name.map_or_else(|| format!("thread {}", thread.0), str::to_owned)
}

/// Stores the name of a thread, unless it is unknown.
fn register(number: u32, name: Option<Box<str>>) {
    let index = number as usize - 1;
    let mut names = locked(&NAMES);
    if names.len() <= index {
        names.resize(index + 1, None);
    }
    if name.is_some() {
        names[index] = name;
    }
}

/// How many bytes of a thread's name Linux keeps.
const KEPT: usize = 15;
/// Marks a name that may have been truncated by Linux.
const CUT: char = '…';

/// Returns the name of this thread on Linux: the first 15 bytes of its full name, marked with
/// [`CUT`] if there may be more. It can be read on any thread and at any moment, unlike the [full
/// name](full_name).
fn system_name() -> Option<Box<str>> {
    // The initial thread has the program's name, which is not informative.
    if read_whether_first()? {
        return Some("main".into());
    }
    let name = std::fs::read_to_string("/proc/thread-self/comm").ok()?;
    let name = name.trim_end();
    match name.len() {
        0 => None,
        KEPT.. => Some(format!("{name}{CUT}").into()),
        _ => Some(name.into()),
    }
}

/// Returns the name that Rust knows for this thread. Returns `None` on a thread that Rust did not
/// start, and at the very end of a thread, when [`thread::current`] panics.
///
/// On a thread that Rust did not start, it allocates. So this is called only by code that creates
/// something, which calls an allocator anyway.
fn full_name() -> Option<Box<str>> {
    catch_unwind(|| thread::current().name().map(Into::into)).ok()?
}

#[cfg(test)]
mod tests {
    use super::{number, outside_every_check, thread_name};
    use crate::ledger::event::ThreadNumber;

    fn on_thread(name: &str, body: impl FnOnce() -> ThreadNumber + Send + 'static) -> ThreadNumber {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(body).unwrap().join().unwrap()
    }

    #[test]
    fn a_thread_keeps_its_number_and_shares_it_with_none() {
        let other = on_thread("other", || {
            assert_eq!(number(), number());
            number()
        });
        assert_ne!(number(), other);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_s_name_outlives_it() {
        let ended = on_thread("data-loader-3", number);
        assert_eq!(thread_name(ended), "data-loader-3");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_creates_outside_every_check_is_listed_by_full_name() {
        let name = "tests::training_frees_everything";
        let works = on_thread(name, number);
        assert_eq!(thread_name(works), "tests::training…");
        let creates = on_thread(name, || {
            super::creates_outside(number());
            number()
        });
        assert_eq!(thread_name(creates), name);
        assert!(outside_every_check().contains(&name.to_owned()));
    }

    #[test]
    fn an_unknown_thread_is_named_by_its_number() {
        assert_eq!(thread_name(ThreadNumber(u32::MAX)), "thread 4294967295");
    }
}
