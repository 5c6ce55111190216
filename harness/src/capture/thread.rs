//! The numbers and names of threads, for the ledger and for reports.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use gpu_leak_interpose::uncancelled;

use crate::ledger::event::ThreadNumber;
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, locked};

static LAST: AtomicU32 = AtomicU32::new(0);
/// The names of threads, by number. The first number is 1.
static NAMES: Mutex<Vec<Option<Box<str>>>> = Mutex::new(Vec::new());

/// The threads that created something outside any check.
static OUTSIDE: Mutex<Vec<ThreadNumber>> = Mutex::new(Vec::new());

/// What a thread has done so far that matters to checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The thread has neither created anything outside any check nor begun a check.
    Unknown,
    /// The thread has created something outside any check.
    Outside,
    /// The thread has begun a check.
    Checks,
}

thread_local! {
    static STANDING: Cell<Standing> = const { Cell::new(Standing::Unknown) };

    /// The number of this thread; 0 until the thread first enters the harness. This has no
    /// destructor, because a wrapper can be called from the destructor of another thread-local.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

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
    register(new, uncancelled(system_name));
    ThreadNumber(new)
}

/// Records that this thread, whose number is `thread`, creates something outside any check.
pub(crate) fn creates_outside(thread: ThreadNumber) {
    if STANDING.get() == Standing::Unknown {
        let _quiet = quiet();
        STANDING.set(Standing::Outside);
        locked(&OUTSIDE).push(thread);
        // libtest gives the thread that runs a test the name of that test, and users need the full
        // name.
        if thread_name(thread).ends_with(CUT) {
            register(thread.0, full_name());
        }
    }
}

/// Records that this thread begins a check. If it also created resources outside that check, it is
/// not reported as an unchecked test.
pub(crate) fn begins_a_check() {
    if STANDING.replace(Standing::Checks) == Standing::Outside {
        let _quiet = quiet();
        let this = number();
        locked(&OUTSIDE).retain(|thread| *thread != this);
    }
}

/// Returns the names of the threads that created something outside any check and did not begin a
/// check, except the initial thread. These are the threads of tests, and threads that tests have
/// started.
pub(crate) fn outside_any_check() -> Vec<String> {
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

/// Reads from `/proc` whether this is the initial thread; `None` if there is no `/proc`.
fn read_whether_first() -> Option<bool> {
    // The link is `PID/task/TID`. For the initial thread, both numbers are equal.
    let this = std::fs::read_link("/proc/thread-self").ok()?;
    let mut parts = this.iter();
    Some(parts.next() == parts.next_back())
}

/// Returns the name of a thread, even after its end. If it has no name, the result is of the form
/// `thread 7`.
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

/// The number of bytes that Linux keeps of a thread's name.
pub(crate) const SYSTEM_NAME_LENGTH: usize = 15;
/// Marks a name that may have been truncated by Linux.
const CUT: char = '…';

/// Returns the name of this thread on Linux: the first 15 bytes of its full name, marked with
/// [`CUT`] if there may be more. Unlike the [full name](full_name), it can be read on any thread at
/// any time.
fn system_name() -> Option<Box<str>> {
    // The initial thread has the program's name, which is not informative.
    if read_whether_first()? {
        return Some("main".into());
    }
    let name = std::fs::read("/proc/thread-self/comm").ok()?;
    let name = name.trim_ascii_end();
    let shown = String::from_utf8_lossy(name);
    match name.len() {
        0 => None,
        SYSTEM_NAME_LENGTH.. => {
            // The cut may be inside a character.
            let whole = shown.trim_end_matches(char::REPLACEMENT_CHARACTER);
            Some(format!("{whole}{CUT}").into())
        }
        _ => Some(shown.into()),
    }
}

/// Returns the name that Rust knows for this thread. Returns `None` on a thread that Rust did not
/// start, and at the very end of a thread, when [`thread::current`] panics.
///
/// On a thread that Rust did not start, this allocates memory. So it is called only by code that
/// creates something, which calls an allocator anyway.
fn full_name() -> Option<Box<str>> {
    catch_unwind(|| thread::current().name().map(Into::into)).ok()?
}

#[cfg(test)]
mod tests {
    use super::{number, outside_any_check, thread_name};
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
    fn a_thread_that_creates_outside_any_check_is_listed_by_full_name() {
        let name = "tests::training_frees_everything";
        let works = on_thread(name, number);
        assert_eq!(thread_name(works), "tests::training…");
        let creates = on_thread(name, || {
            super::creates_outside(number());
            number()
        });
        assert_eq!(thread_name(creates), name);
        assert!(outside_any_check().contains(&name.to_owned()));
    }

    /// The kernel keeps the first 15 bytes of a name, which may end inside a character.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_cut_off_inside_a_character_is_shown_up_to_it() {
        let works = on_thread("die_länge", number);
        assert_eq!(thread_name(works), "die_länge");
        let works = on_thread("tests::gute_größe", number);
        assert_eq!(thread_name(works), "tests::gute_gr…");
    }

    #[test]
    fn an_unknown_thread_is_named_by_its_number() {
        assert_eq!(thread_name(ThreadNumber(u32::MAX)), "thread 4294967295");
    }
}
