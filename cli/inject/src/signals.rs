//! Receives signals without interfering with the program: only signals with the default action are
//! taken over, and a handler that the program installs later replaces ours.
//!
//! The handler sets a bit and posts a semaphore, both of which are async-signal-safe. A pipe would
//! also work, but only until a program closes all files that it did not open.
//!
//! If the program itself sends a signal that ends it, the handler does not return before the
//! process has ended, because the program does not expect to continue after `raise`.

#![expect(unsafe_code, reason = "calls C functions for signals and semaphores")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The signal requests a snapshot.
    Snapshot,
    /// The signal ends the process, unless the program handles it.
    End,
}

/// The signals that end a program from outside.
pub(crate) const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The maximum number of milliseconds for which a handler waits for the process to end. The process
/// ends sooner, unless the snapshot needs a lock that the interrupted thread holds.
const LONGEST_WAIT: u32 = 5000;

/// The signals that were received and not yet returned by [`wait`], with one bit each.
static RECEIVED: AtomicU64 = AtomicU64::new(0);
/// The signals that end the process, with one bit each.
static ENDS: AtomicU64 = AtomicU64::new(0);
/// Whether a signal that ends the process was received.
static ENDING_NOW: AtomicBool = AtomicBool::new(false);
/// The signals that were taken over, with one bit each.
static TAKEN_OVER: AtomicU64 = AtomicU64::new(0);
/// The process that has the watcher; a forked child has none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

struct Semaphore(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: a semaphore is made to be used from several threads at once, and `PROCESS` is set only
// after it was initialised.
unsafe impl Sync for Semaphore {}

static POSTED: Semaphore = Semaphore(UnsafeCell::new(MaybeUninit::uninit()));

/// Takes over `signal` if the program has not changed its default action.
pub(crate) fn take_over(signal: c_int, what: Signal) -> bool {
    if !(1..64).contains(&signal) {
        return false;
    }
    if PROCESS.load(Ordering::Acquire) == 0 {
        // SAFETY: this is done once, before any handler of ours is installed.
        unsafe { libc::sem_init(POSTED.0.get().cast(), 0, 0) };
        PROCESS.store(std::process::id(), Ordering::Release);
    }
    if handler_of(signal) != Some(libc::SIG_DFL) {
        return false;
    }
    if what == Signal::End {
        ENDS.fetch_or(1 << signal, Ordering::Relaxed);
    }
    let installed = set(signal, own_handler());
    if installed {
        TAKEN_OVER.fetch_or(1 << signal, Ordering::Relaxed);
    }
    installed
}

/// Undoes [`take_over`] for all signals.
pub(crate) fn give_back() {
    let taken = TAKEN_OVER.swap(0, Ordering::Relaxed);
    for signal in (1..64).filter(|signal| taken & 1 << signal != 0) {
        set(signal, libc::SIG_DFL);
    }
}

fn own_handler() -> libc::sighandler_t {
    let handler: extern "C" fn(c_int, *const libc::siginfo_t, *mut c_void) = on_signal;
    handler as libc::sighandler_t
}

/// Returns the present handler of a signal; `None` if there is no such signal.
fn handler_of(signal: c_int) -> Option<libc::sighandler_t> {
    let mut present = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call only queries the action, and `present` is writable memory of its type. If
    // the call is successful, it has filled in `present`.
    unsafe {
        let queried = libc::sigaction(signal, ptr::null(), present.as_mut_ptr()) == 0;
        queried.then(|| present.assume_init().sa_sigaction)
    }
}

fn set(signal: c_int, handler: libc::sighandler_t) -> bool {
    // SAFETY: all zeros is a valid action, with no flags, an empty mask and the default handler.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // Interrupted calls are restarted, and a program with small stacks may have set up a separate
    // stack for signals. The signal is not blocked in its own handler, which may wait until the
    // same signal, sent again, ends the process.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
    // SAFETY: `action` is complete. The handler is the default one, or `on_signal`, which does only
    // what a handler may do.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0 }
}

extern "C" fn on_signal(signal: c_int, about: *const libc::siginfo_t, _: *mut c_void) {
    // A handler that the program has installed in place of this one may call it, with any number of
    // arguments. The program is then handling the signal.
    if handler_of(signal) != Some(own_handler()) {
        return;
    }
    let bit = 1_u64 << signal;
    let ends = ENDS.load(Ordering::Relaxed) & bit != 0;
    // A forked child has no watcher, and a second signal means that the user does not want to wait.
    let is_ours = PROCESS.load(Ordering::Acquire) == std::process::id();
    if ends && (!is_ours || ENDING_NOW.swap(true, Ordering::Relaxed)) {
        do_as_default(signal);
        return;
    }
    if is_ours {
        RECEIVED.fetch_or(bit, Ordering::Release);
        // SAFETY: `PROCESS` shows that the semaphore was initialised. Posting keeps `errno` unless
        // the count overflows, which one bit per signal cannot cause.
        unsafe { libc::sem_post(POSTED.0.get().cast()) };
        // SAFETY: this is the present handler, so the kernel has called it. It passes information
        // about the signal that is valid until the handler returns.
        if ends && is_from_this_process(unsafe { &*about }) {
            wait_for_the_end();
        }
    }
}

fn is_from_this_process(about: &libc::siginfo_t) -> bool {
    let names_its_sender = matches!(about.si_code, libc::SI_TKILL | libc::SI_USER);
    // SAFETY: with these codes, the information contains the sender.
    names_its_sender && unsafe { about.si_pid() }.cast_unsigned() == std::process::id()
}

/// Waits until the watcher ends the process. The time is limited, because the interrupted thread
/// may hold a lock that the watcher needs.
fn wait_for_the_end() {
    let millisecond = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..LONGEST_WAIT {
        // SAFETY: a handler may sleep, and the time outlives the call.
        unsafe { libc::nanosleep(&raw const millisecond, ptr::null_mut()) };
    }
}

/// Ends the process with the signal, as if there were no handler, so that the parent sees the same
/// status.
pub(crate) fn do_as_default(signal: c_int) {
    set(signal, libc::SIG_DFL);
    // SAFETY: this sends a signal to this process and reads no memory.
    unsafe { libc::kill(libc::getpid(), signal) };
}

/// Waits for a signal until `deadline`. Returns `None` if none arrived.
pub(crate) fn wait(deadline: Instant) -> Option<(c_int, Signal)> {
    loop {
        if let Some(received) = next_received() {
            return Some(received);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let until = time_of_day_in(left);
        // SAFETY: the semaphore was initialised before this thread was started, and `until`
        // outlives the call.
        unsafe { libc::sem_timedwait(POSTED.0.get().cast(), &raw const until) };
    }
}

fn next_received() -> Option<(c_int, Signal)> {
    let received = RECEIVED.load(Ordering::Acquire);
    if received == 0 {
        return None;
    }
    let signal = received.trailing_zeros();
    RECEIVED.fetch_and(!(1 << signal), Ordering::AcqRel);
    let what = if ENDS.load(Ordering::Relaxed) & 1 << signal != 0 {
        Signal::End
    } else {
        Signal::Snapshot
    };
    Some((signal.cast_signed(), what))
}

/// Returns the time of day after `wait`, in the form that semaphores expect.
fn time_of_day_in(wait: Duration) -> libc::timespec {
    let until = SystemTime::now() + wait;
    let since_1970 = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    libc::timespec {
        tv_sec: libc::time_t::try_from(since_1970.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: since_1970.subsec_nanos().into(),
    }
}

/// While this exists, the thread and any threads that it starts receive no signals.
pub(crate) struct Blocked(libc::sigset_t);

/// Blocks all signals for this thread.
pub(crate) fn block_all() -> Blocked {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both variables are memory of their type. The first is filled before it is read, and
    // the second is filled by a call that cannot fail with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        Blocked(before.assume_init())
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: this is a mask that this thread had before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// Returns the name of a signal, such as `SIGUSR1`.
pub(crate) fn name(signal: c_int) -> String {
    const NAMES: [(c_int, &str); 5] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGUSR2, "SIGUSR2"),
    ];
    let known = NAMES.iter().find(|(number, _)| *number == signal);
    known.map_or_else(
        || format!("signal {signal}"),
        |(_, name)| (*name).to_owned(),
    )
}
