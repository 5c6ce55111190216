//! Counts the live threads that inherited a token.
//!
//! A thread is counted from the call that starts it to the last of its destructors: thread-locals
//! are destroyed before `pthread` keys, so the destructor of a key is the last code of the thread
//! that can report.
//!
//! A forked child counts nothing: a thread that does not exist there may have held the lock.
#![expect(unsafe_code, reason = "a destructor of pthread reports a thread's end")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::MarkedThread;

/// Starting a thread costs far more than this lock.
static LIVE: Mutex<Live> = Mutex::new(Live {
    counts: Vec::new(),
    threads: Vec::new(),
});

struct Live {
    /// The tokens of live threads with their counts: only a few tokens are live at once.
    counts: Vec<(u64, usize)>,
    /// Those threads, once they run.
    threads: Vec<Thread>,
}

struct Thread {
    public: MarkedThread,
    handle: libc::pthread_t,
}

/// How many calls to start a thread without a token have begun, and how many have returned. Nothing
/// more is recorded for such threads: an allocator may start one, and must not be called then.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// The id of the process that counts; 0 before its first count.
static COUNTING: AtomicU32 = AtomicU32::new(0);

/// Returns `None` in a forked child.
fn lock() -> Option<MutexGuard<'static, Live>> {
    (!is_forked()).then(|| LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the kernel's id of this thread.
fn this_thread() -> libc::pid_t {
    // SAFETY: only returns a number.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Whether this is a forked child of the process that counts.
pub(super) fn is_forked() -> bool {
    let here = std::process::id();
    // Set before the lock is taken for the first time: a fork before that leaves it unlocked, and
    // the child counts for itself.
    let first = COUNTING.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    first.is_err_and(|counting| counting != here)
}

/// Returns how many live threads inherited this token, including those that are about to begin or
/// are running their destructors. 0 without [`inherits`](crate::inherits).
#[must_use]
pub fn live(token: u64) -> usize {
    let live = lock();
    let mut counts = live.iter().flat_map(|live| &live.counts);
    counts
        .find(|(known, _)| *known == token)
        .map_or(0, |(_, count)| *count)
}

/// Returns the threads of [`threads_with_token`](crate::threads_with_token) with their
/// [marks](crate::mark_threads).
#[must_use]
pub fn marked_threads() -> Vec<MarkedThread> {
    let public = |live: MutexGuard<'_, Live>| live.threads.iter().map(|it| it.public).collect();
    lock().map_or_else(Vec::new, public)
}

/// Returns the kernel's ids of the live threads that inherited any token but 0, and of those of
/// drivers. One that has just begun may be missing. Empty without [`inherits`](crate::inherits).
#[must_use]
pub fn threads_with_token() -> Vec<i32> {
    let threads = marked_threads().into_iter();
    threads.map(|thread| thread.id).collect()
}

/// Marks the thread with this handle, which is about to be detached, if it is one of those.
pub(crate) fn detached(handle: libc::pthread_t, mark: impl FnOnce() -> u64) {
    let find = |live: &mut Live| live.threads.iter().position(|it| it.handle == handle);
    if lock().is_none_or(|mut live| find(&mut live).is_none()) {
        return;
    }
    // The lock is not held, because this calls the harness.
    let mark = mark();
    if let Some(mut live) = lock()
        && let Some(at) = find(&mut live)
    {
        live.threads[at].public.detached = mark;
    }
}

/// Starts a thread without a token, with `create`.
pub(crate) fn start_without_token<T>(create: impl FnOnce() -> T) -> T {
    BEGUN.fetch_add(1, Ordering::SeqCst);
    let result = create();
    RETURNED.fetch_add(1, Ordering::SeqCst);
    result
}

/// Returns how many threads were ever started by threads with token 0, including those that are
/// being started. 0 without [`inherits`](crate::inherits).
#[must_use]
pub fn started_without_token() -> u64 {
    BEGUN.load(Ordering::SeqCst)
}

/// Whether a thread is being started, with a token or without: it may be missing from
/// [`threads_with_token`](crate::threads_with_token) or from the kernel's list. Always false without
/// [`inherits`](crate::inherits).
#[must_use]
pub fn is_starting() -> bool {
    // In a forked child, a call that another thread of the parent had begun never returns.
    let Some(live) = lock() else {
        return false;
    };
    // In this order: a call that has returned by then began earlier.
    let returned = RETURNED.load(Ordering::SeqCst);
    // A thread that is counted may not run yet.
    let counted: usize = live.counts.iter().map(|(_, count)| count).sum();
    returned != started_without_token() || counted != live.threads.len()
}

/// Counts a thread that is about to inherit `token`.
pub(crate) fn add(token: u64) {
    let Some(mut live) = lock() else {
        return;
    };
    match live.counts.iter_mut().find(|(known, _)| *known == token) {
        Some((_, count)) => *count += 1,
        None => live.counts.push((token, 1)),
    }
}

/// Removes a thread that ended or could not be started.
pub(crate) fn remove(token: u64) {
    if let Some(mut live) = lock() {
        live.remove(token);
    }
}

impl Live {
    fn remove(&mut self, token: u64) {
        let counts = &mut self.counts;
        if let Some(at) = counts.iter().position(|(known, _)| *known == token) {
            counts[at].1 -= 1;
            if counts[at].1 == 0 {
                counts.swap_remove(at);
            }
        }
    }
}

/// Makes this thread, which was counted under `token`, be removed at its end.
pub(crate) fn remove_at_end(token: u64, mark: u64) {
    if is_forked() {
        return;
    }
    let value = ptr::without_provenance::<c_void>(token as usize);
    // SAFETY: the key comes from `pthread_key_create`; the value is a number and never
    // dereferenced.
    let set = key().map(|key| unsafe { libc::pthread_setspecific(key, value) });
    let Some(mut live) = lock() else {
        return;
    };
    match set {
        Some(0) => live.threads.push(Thread {
            public: MarkedThread {
                id: this_thread(),
                started: mark,
                detached: 0,
            },
            // SAFETY: only returns this thread's handle.
            handle: unsafe { libc::pthread_self() },
        }),
        // Its end will not be reported: it is better to wait for too few threads than forever.
        _ => live.remove(token),
    }
}

/// Returns the key whose destructor removes threads; `None` if the process has no key left.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is writable; `ended` does not unwind and uses nothing that may be gone by
        // then.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
        (made == 0).then_some(key)
    })
}

extern "C" fn ended(token: *mut c_void) {
    if let Some(mut live) = lock() {
        let ended = this_thread();
        live.threads.retain(|thread| thread.public.id != ended);
        live.remove(token.addr() as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::ptr;

    use super::{add, live, lock, remove};
    use crate::{set_token, token};

    extern "C" fn ends(_: *mut c_void) -> *mut c_void {
        ptr::without_provenance_mut(usize::try_from(token()).unwrap_or(0))
    }

    /// Starts a thread as C code does, waits for its end, and returns the token that it had.
    fn token_of_a_thread() -> usize {
        let (mut thread, mut result) = (0, ptr::null_mut());
        // SAFETY: `thread` and `result` are written to, `ends` takes any argument, and the thread is
        // joined once.
        let error = unsafe {
            libc::pthread_create(&raw mut thread, ptr::null(), ends, ptr::null_mut())
                + libc::pthread_join(thread, &raw mut result)
        };
        assert_eq!(error, 0);
        result.addr()
    }

    #[test]
    fn a_child_forked_while_the_counts_are_in_use_starts_and_ends_threads() {
        let before = set_token(21);
        assert_eq!(token_of_a_thread(), 21);
        add(22);
        let held = lock();
        // SAFETY: the child starts a thread, waits for it and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: requests a signal that ends the child.
            unsafe { libc::alarm(10) };
            let inherited = token_of_a_thread() == 21;
            remove(22);
            let counted = live(21) + live(22);
            // SAFETY: ends the child immediately, without handlers.
            unsafe { libc::_exit(i32::from(!inherited || counted != 0)) };
        }
        drop(held);
        let mut status = 0;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert_eq!(live(22), 1);
        remove(22);
        set_token(before);
    }
}
