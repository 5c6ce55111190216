//! `pthread_create`, which passes on the token, and `pthread_detach`, which notes where it was called.
//!
//! The linker resolves every call in the program to the definitions below; `RTLD_NEXT` is the one
//! that would have been called without them.
#![expect(unsafe_code, reason = "stands between the program and the C library")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{OF_A_DRIVER, TOKEN, live};
use crate::dlsym;

/// The function that a thread runs. It may be unwound through, by `pthread_exit` and cancellation,
/// and no frame of this file holds anything to drop while it runs.
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
/// As in the manual page: `thread` is writable, `attributes` is null or initialised, and `routine`
/// may be called with `argument` on another thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = next() else {
        return libc::EAGAIN;
    };
    run_first();
    let token = TOKEN.get();
    let counted_as = match is_drivers(routine) {
        true => OF_A_DRIVER,
        false => token,
    };
    if counted_as == 0 {
        // SAFETY: the caller keeps the contract, and every argument is passed on unchanged.
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
    // SAFETY: thread and attributes are passed on unchanged; `begin` expects a `Start`, which is
    // valid until `begin` takes it back, on whatever thread it runs.
    let result = unsafe { create(thread, attributes, begin, start.cast()) };
    if result != 0 {
        // SAFETY: no thread began, so `begin` never ran and `start` still belongs to this call.
        drop(unsafe { Box::from_raw(start) });
        live::remove(counted_as);
    }
    result
}

/// How the files of GPU drivers begin: NVIDIA's, AMD's and Mesa's.
const DRIVERS: [&[u8]; 7] = [
    b"libnvidia-",
    b"libcuda.so",
    b"libGLX_nvidia.so",
    b"libEGL_nvidia.so",
    b"libvulkan_",
    b"libgallium",
    b"amdvlk",
];

/// Whether a thread works for a driver: its first function is one of the driver's own.
fn is_drivers(routine: Routine) -> bool {
    let Some(object) = dlsym::object_of(routine as *const c_void) else {
        return false;
    };
    // SAFETY: the object is loaded, for it is about to run; its name is a C string.
    let path = unsafe { CStr::from_ptr((*object).name) }.to_bytes();
    let file = path.rsplit(|letter| *letter == b'/').next();
    file.is_some_and(|file| DRIVERS.iter().any(|driver| file.starts_with(driver)))
}

/// The first function of a thread that inherits.
extern "C-unwind" fn begin(start: *mut c_void) -> *mut c_void {
    // The box is freed here: a variable would hold it while the routine runs.
    // SAFETY: `pthread_create` above made this pointer from a box and passed it only to this call.
    let Start {
        routine,
        argument,
        token,
        counted_as,
        mark,
    } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    TOKEN.set(token);
    live::remove_at_end(counted_as, mark);
    routine(argument)
}

/// The function that marks threads; null for none.
static MARK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Calls `mark` for each thread that will inherit a token.
pub(crate) fn mark_by(mark: fn() -> u64) {
    MARK.store(mark as *mut c_void, Ordering::Release);
}

fn mark() -> u64 {
    // A lock that it needs may be held by a thread that does not exist in the child.
    if live::is_forked() {
        return 0;
    }
    let mark = MARK.load(Ordering::Acquire);
    // SAFETY: a null pointer is `None`; any other one comes from a function of this type.
    let mark = unsafe { std::mem::transmute::<*mut c_void, Option<fn() -> u64>>(mark) };
    mark.map_or(0, |mark| mark())
}

/// The function to run before the next thread begins; null for none.
static FIRST: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Runs `first` before the next thread begins.
pub(crate) fn before_next(first: fn()) {
    FIRST.store(first as *mut c_void, Ordering::Release);
    link();
}

fn run_first() {
    if FIRST.load(Ordering::Relaxed).is_null() {
        return;
    }
    // Taken out first, because it may start threads itself.
    let first = FIRST.swap(std::ptr::null_mut(), Ordering::Acquire);
    // SAFETY: a null pointer is `None`; any other one comes from a function of this type.
    if let Some(first) = unsafe { std::mem::transmute::<*mut c_void, Option<fn()>>(first) } {
        first();
    }
}

/// Detaches a thread, with the contract and result of
/// [`pthread_detach(3)`](https://man7.org/linux/man-pages/man3/pthread_detach.3.html).
///
/// # Safety
///
/// As in the manual page: `thread` is the handle of a thread that nobody has joined or detached.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: libc::pthread_t) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

    live::detached(thread, mark);
    let next = behind(&NEXT, c"pthread_detach");
    // SAFETY: a null pointer is `None`; any other is the function of this name.
    let next = unsafe { std::mem::transmute::<*mut c_void, Option<Detach>>(next) };
    // SAFETY: the caller keeps the contract.
    next.map_or(libc::ESRCH, |next| unsafe { next(thread) })
}

/// The `pthread_create` behind ours; none if there is none.
fn next() -> Option<Create> {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

    let next = behind(&NEXT, c"pthread_create");
    // SAFETY: a null pointer is `None`; any other is the function of this name, whose type the C
    // library and every interposer share.
    unsafe { std::mem::transmute::<*mut c_void, Option<Create>>(next) }
}

/// Returns the definition of `name` behind ours, which is looked up once and kept in `known`; null if there
/// is none.
fn behind(known: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut found = known.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: the name ends in a zero byte, and looking a name up has no other precondition.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        // Threads that race find the same function.
        known.store(found, Ordering::Relaxed);
    }
    found
}

/// Makes the linker keep `pthread_create`: it takes an object out of a library only for a symbol
/// that is missing at that moment, and the standard library, which calls it, comes later.
pub(crate) fn link() {
    std::hint::black_box((pthread_create as Create, pthread_detach as Detach));
}
