//! Counts the live threads that inherited a token.
//!
//! A thread is counted from the call that starts it to the last of its destructors: thread-locals
//! are destroyed before `pthread` keys, so the destructor of a key is the last code of the thread
//! that can report.
//!
//! A forked child counts nothing, because a thread that does not exist there may have held the lock
//! at the time of the fork.
#![expect(
    unsafe_code,
    reason = "registers a pthread destructor that reports the end of a thread"
)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::interface::MarkedThread;

/// The threads that were started with a token and have not ended. Taking this lock costs far less
/// than starting a thread.
static LIVE: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

#[derive(Default)]
struct Thread {
    handle: libc::pthread_t,
    /// The part that [`marked_threads`] returns. Its id is 0 until the thread runs.
    public: MarkedThread,
}

/// For calls that start a thread without a token: how many have begun, and how many have returned.
/// Nothing more is recorded for such a thread, because the code that starts it may be an allocator,
/// which must not be called at that moment.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static RETURNED: AtomicU64 = AtomicU64::new(0);

/// The id of the process that counts; 0 before its first count.
static COUNTING: AtomicU32 = AtomicU32::new(0);

/// Locks the list of threads. Returns `None` in a forked child.
fn lock() -> Option<MutexGuard<'static, Vec<Thread>>> {
    (!is_forked()).then(|| LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns this thread's ID in the Linux kernel.
fn this_thread() -> libc::pid_t {
    // SAFETY: the call only returns a number.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

/// Whether this is a forked child of the process that counts.
pub(super) fn is_forked() -> bool {
    let here = std::process::id();
    // The id is set before the lock is taken for the first time. If a fork happens earlier, the
    // lock is free, and the child counts its own threads.
    let first = COUNTING.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    first.is_err_and(|counting| counting != here)
}

/// Returns how many live threads inherited this token, including those that are about to begin or
/// are running their destructors. The result is 0 if [`inherits`](crate::inherits) is false.
pub fn live(token: u64) -> usize {
    let live = lock();
    let threads = live.iter().flat_map(|live| live.iter());
    threads
        .filter(|thread| thread.public.token == token)
        .count()
}

/// Returns the live threads that inherited a nonzero token and the threads that drivers started for
/// themselves, with their [marks](crate::mark_threads). A thread that has just begun may be
/// missing. The result is empty if [`inherits`](crate::inherits) is false.
pub fn marked_threads() -> Vec<MarkedThread> {
    let live = lock();
    let threads = live.iter().flat_map(|live| live.iter());
    let running = threads.filter(|thread| thread.public.id != 0);
    running.map(|thread| thread.public).collect()
}

/// Marks the thread with this handle, which is about to be detached, if it is counted.
pub(crate) fn detached(handle: libc::pthread_t, mark: impl FnOnce() -> u64) {
    let find = |live: &[Thread]| live.iter().position(|it| it.handle == handle);
    if lock().is_none_or(|live| find(&live).is_none()) {
        return;
    }
    // The lock is not held here, because `mark` calls the harness.
    let mark = mark();
    if let Some(mut live) = lock()
        && let Some(at) = find(&live)
    {
        live[at].public.detached = mark;
    }
}

/// Counts a call to `create`, which starts a thread without a token.
pub(crate) fn start_without_token<T>(create: impl FnOnce() -> T) -> T {
    BEGUN.fetch_add(1, Ordering::SeqCst);
    let result = create();
    RETURNED.fetch_add(1, Ordering::SeqCst);
    result
}

/// Returns how many threads have been started by threads with token 0, including threads that are
/// being started. The result is 0 if [`inherits`](crate::inherits) is false.
pub fn started_without_token() -> u64 {
    BEGUN.load(Ordering::SeqCst)
}

/// Whether a thread is being started, with or without a token. Such a thread may be missing from
/// [`marked_threads`] or from the kernel's list. Always false if [`inherits`](crate::inherits) is
/// false.
pub fn is_starting() -> bool {
    // If another thread of the parent was in such a call during a fork, that call never returns in
    // the child.
    let Some(live) = lock() else {
        return false;
    };
    // The order matters: a call that is counted as returned must also be counted as begun.
    let returned = RETURNED.load(Ordering::SeqCst);
    returned != started_without_token() || live.iter().any(|thread| thread.public.id == 0)
}

/// Counts a thread that is about to inherit `token`.
pub(crate) fn add(token: u64) {
    if let Some(mut live) = lock() {
        let mut thread = Thread::default();
        thread.public.token = token;
        live.push(thread);
    }
}

/// Removes a thread that could not be started.
pub(crate) fn remove(token: u64) {
    if let Some(mut live) = lock()
        && let Some(at) = starting(&live, token)
    {
        live.swap_remove(at);
    }
}

/// Returns the position of a thread that was counted under `token` and is not running yet.
fn starting(live: &[Thread], token: u64) -> Option<usize> {
    live.iter()
        .position(|thread| thread.public.token == token && thread.public.id == 0)
}

/// Arranges for this thread, which was counted under `token`, to be removed when it ends.
pub(crate) fn remove_at_end(token: u64, mark: u64) {
    if is_forked() {
        return;
    }
    // The destructor is called for every value except null.
    let value = ptr::dangling::<c_void>();
    // SAFETY: the key comes from `pthread_key_create`, and the value is never dereferenced.
    let set = key().map(|key| unsafe { libc::pthread_setspecific(key, value) });
    if set != Some(0) {
        // The end of such a thread would not be reported, so the thread is not counted: waiting for
        // too few threads is better than waiting forever.
        return remove(token);
    }
    if let Some(mut live) = lock()
        && let Some(at) = starting(&live, token)
    {
        live[at].public.id = this_thread();
        live[at].public.started = mark;
        // SAFETY: the call only returns this thread's handle.
        live[at].handle = unsafe { libc::pthread_self() };
    }
}

/// Returns the key whose destructor removes threads; `None` if the process has no key left.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is writable. `ended` does not unwind, and uses nothing that may no longer
        // exist when it runs.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
        (made == 0).then_some(key)
    })
}

extern "C" fn ended(_: *mut c_void) {
    if let Some(mut live) = lock() {
        let ended = this_thread();
        live.retain(|thread| thread.public.id != ended);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::ptr;

    use super::{add, live, lock, remove};
    use crate::{set_token, token, visit_objects};

    extern "C" fn ends(_: *mut c_void) -> *mut c_void {
        ptr::without_provenance_mut(usize::try_from(token()).unwrap_or(0))
    }

    /// Starts a thread as C code does, waits for its end, and returns the token that it had.
    fn token_of_a_thread() -> usize {
        let (mut thread, mut result) = (0, ptr::null_mut());
        // SAFETY: `thread` and `result` are written to, `ends` takes any argument, and the thread
        // is joined once.
        let error = unsafe {
            libc::pthread_create(&raw mut thread, ptr::null(), ends, ptr::null_mut())
                + libc::pthread_join(thread, &raw mut result)
        };
        assert_eq!(error, 0);
        result.addr()
    }

    /// The fork also happens while the loader's lock for visits is held, so this lock stays locked
    /// in the child.
    #[test]
    fn a_child_forked_while_the_counts_are_in_use_starts_and_ends_threads() {
        let before = set_token(21);
        assert_eq!(token_of_a_thread(), 21);
        add(22);
        let held = lock();
        let mut child = -1;
        visit_objects(|_| {
            // SAFETY: the child starts a thread, waits for it and ends.
            child = unsafe { libc::fork() };
            false
        });
        if child == 0 {
            // SAFETY: the call requests a signal that ends the child.
            unsafe { libc::alarm(10) };
            let inherited = token_of_a_thread() == 21;
            remove(22);
            let counted = live(21) + live(22);
            // SAFETY: the call ends the child immediately, without running handlers.
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
