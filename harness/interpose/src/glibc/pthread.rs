//! Defines `pthread_create`, which passes on the token, and `pthread_detach`, which records where
//! it was called.
//!
//! The linker resolves every call in the program to the definitions below. `RTLD_NEXT` finds the
//! definitions that would otherwise have been called.
#![expect(unsafe_code, reason = "replaces functions of the C library")]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::live;
use super::next::behind;
use crate::interface::MarkedThread;
use crate::loader::{object_name, segments, visit_objects};
use crate::threads::{TOKEN, token};

/// The function that a thread runs. `pthread_exit` and cancellation may unwind through it, so no
/// frame of this file holds anything that must be dropped while the function runs.
type Routine = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Routine,
    *mut c_void,
) -> c_int;

type Detach = unsafe extern "C" fn(libc::pthread_t) -> c_int;

/// The argument of a thread that inherits.
struct Start {
    routine: Routine,
    argument: *mut c_void,
    token: u64,
    counted_as: u64,
    mark: u64,
}

/// Starts a thread, with the contract and result of
/// [`pthread_create(3)`](https://man7.org/linux/man-pages/man3/pthread_create.3.html).
///
/// # Safety
///
/// The conditions are those of the manual page: `thread` is writable, `attributes` is null or
/// initialised, and `routine` may be called with `argument` on another thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // SAFETY: the name identifies a function of this type.
    let Some(create) = (unsafe { behind::<Create>(&NEXT, c"pthread_create") }) else {
        return libc::EAGAIN;
    };
    run_first();
    let token = token();
    let counted_as = match is_drivers(routine) {
        true => MarkedThread::OF_A_DRIVER,
        false => token,
    };
    if counted_as == 0 {
        // SAFETY: the caller upholds the contract, and every argument is passed on unchanged.
        let create = || unsafe { create(thread, attributes, routine, argument) };
        return live::start_without_token(create);
    }
    live::add(counted_as);
    let start = Box::into_raw(Box::new(Start {
        routine,
        argument,
        token,
        counted_as,
        mark: mark(),
    }));
    // SAFETY: `thread` and `attributes` are passed on unchanged. `begin` expects a `Start`, which
    // stays valid until `begin`, on whatever thread it runs, takes ownership of it.
    let result = unsafe { create(thread, attributes, begin, start.cast()) };
    if result != 0 {
        // SAFETY: no thread was started, so `begin` never ran and `start` still belongs to this
        // call.
        drop(unsafe { Box::from_raw(start) });
        live::remove(counted_as);
    }
    result
}

/// The prefixes of the file names of GPU drivers: NVIDIA's, AMD's and Mesa's.
const DRIVERS: [&str; 7] = [
    "libnvidia-",
    "libcuda.so",
    "libGLX_nvidia.so",
    "libEGL_nvidia.so",
    "libvulkan_",
    "libgallium",
    "amdvlk",
];

/// Whether a thread works for a driver. A thread does so if its first function is in a driver's
/// library.
///
/// The library is found by visiting the objects and not by `dladdr`, which would wait for
/// constructors: the loader holds a lock while it calls them. A visit takes another lock. Most
/// threads of a process begin with one of a few functions, so functions that do not belong to a
/// driver are remembered.
fn is_drivers(routine: Routine) -> bool {
    static NOT_DRIVERS: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

    let address = routine as usize;
    let known = &NOT_DRIVERS[address / 16 % NOT_DRIVERS.len()];
    // In a forked child, nothing is counted.
    if known.load(Ordering::Relaxed) == address || live::is_forked() {
        return false;
    }
    let mut is_drivers = false;
    visit_objects(|object| {
        let mut parts = segments(object).filter(|(kind, ..)| *kind == libc::PT_LOAD);
        let is_in = parts.any(|(.., range)| range.contains(&address));
        if is_in {
            let path = object_name(object).to_bytes();
            let file = path.rsplit(|letter| *letter == b'/').next().unwrap_or(path);
            is_drivers = DRIVERS.iter().any(|it| file.starts_with(it.as_bytes()));
        }
        !is_in
    });
    known.store(if is_drivers { 0 } else { address }, Ordering::Relaxed);
    is_drivers
}

/// The first function of a thread that inherits.
extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    // The box is freed here, because a variable would keep it while the routine runs. SAFETY:
    // `pthread_create` above made this pointer from a box and passed it only to this call.
    let start = *unsafe { Box::from_raw(start.cast::<Start>()) };
    TOKEN.set(start.token);
    live::remove_at_end(start.counted_as, start.mark);
    (start.routine)(start.argument)
}

/// The function that marks threads.
static MARK: OnceLock<fn() -> u64> = OnceLock::new();

/// Calls `mark` from now on when a thread that inherits a token is started or detached, on the
/// thread that starts or detaches it. `mark` must not panic or start a thread. Only the first
/// function that is set takes effect. If [`inherits`](crate::inherits) is false, none does.
pub fn mark_threads(mark: fn() -> u64) {
    let _ = MARK.set(mark);
}

fn mark() -> u64 {
    // In a forked child, a lock that the function needs may be held by a thread that does not exist
    // there.
    let mark = MARK.get().filter(|_| !live::is_forked());
    mark.map_or(0, |mark| mark())
}

/// The function to run before the next thread begins.
static FIRST: Mutex<Option<fn()>> = Mutex::new(None);

/// Runs `first` once, on the thread that is about to start the program's next thread, before the
/// new thread begins. `first` must not panic. Only the last function that is set takes effect. If
/// [`inherits`](crate::inherits) is false, none does.
pub fn before_next_thread(first: fn()) {
    *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
    link();
}

fn run_first() {
    // This does not wait for the lock: in a forked child, a thread that does not exist there may
    // hold it. The function is taken out before it is called, because it may start threads itself.
    let first = FIRST.try_lock().ok().and_then(|mut first| first.take());
    if let Some(first) = first {
        first();
    }
}

/// Detaches a thread, with the contract and result of
/// [`pthread_detach(3)`](https://man7.org/linux/man-pages/man3/pthread_detach.3.html).
///
/// # Safety
///
/// The condition is that of the manual page: `thread` is the handle of a thread that has been
/// neither joined nor detached.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: libc::pthread_t) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    live::detached(thread, mark);
    // SAFETY: the caller upholds the contract, and the name identifies a function of this type.
    unsafe {
        let next: Option<Detach> = behind(&NEXT, c"pthread_detach");
        next.map_or(libc::ESRCH, |next| next(thread))
    }
}

/// Runs `work` while cancellation of this thread is disabled. A cancellation cannot unwind Rust
/// code: the process would abort. Functions such as `read`, `write` and `sleep` begin a
/// cancellation if one has been requested, whereas most functions that the program calls do not.
/// `work` should not panic, because the thread could then no longer be cancelled.
pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLED: c_int = 1;

    let mut before = 0;
    // SAFETY: the call changes only the state of this thread, and `before` is writable.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
    let result = work();
    // SAFETY: the call changes only the state of this thread, and a null pointer means that the
    // previous state is not requested.
    unsafe { pthread_setcancelstate(before, ptr::null_mut()) };
    result
}

/// Sets this thread's token and returns the previous one.
pub fn set_token(token: u64) -> u64 {
    // The token can only be inherited if `pthread_create` is linked.
    link();
    TOKEN.replace(token)
}

/// Makes the linker keep `pthread_create`. The linker extracts an object from a library only for
/// symbols that are undefined at that moment, and the standard library, which calls
/// `pthread_create`, comes later on the command line.
fn link() {
    std::hint::black_box((pthread_create as Create, pthread_detach as Detach));
}
