//! The definitions after ours, which the process would call if this crate did not exist.
//!
//! `dlsym` uses these functions, so they allocate nothing, take no lock, use no thread-local and
//! cannot panic.
#![expect(unsafe_code, reason = "looks up functions of the C library")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::interface::function;

pub(crate) type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Returns the `dlsym` after ours in the lookup order.
pub(crate) fn dlsym() -> Dlsym {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // A preloaded `dlsym` may lie between ours and the C library's.
    // SAFETY: the name is a C string.
    let find = || unsafe { of_libc()(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
    // SAFETY: the name identifies a function of this type.
    unsafe { function(once(&NEXT, find)) }.unwrap_or(of_libc())
}

/// Returns the result of the real `dlsym`. The harness uses this for its own calls, which must not
/// be intercepted.
///
/// # Safety
///
/// `handle` is a handle from `dlopen`, or a special handle that `dlsym` accepts.
pub unsafe fn real_symbol(handle: *mut c_void, name: &CStr) -> *const () {
    // SAFETY: the caller upholds the contract, and the name is a C string.
    let found = unsafe { dlsym()(handle, name.as_ptr()) };
    found.cast_const().cast()
}

/// Returns the C library's `dlsym`. It is looked up by its version, because a lookup by name alone
/// would need `dlsym`.
pub(crate) fn of_libc() -> Dlsym {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // This is the version of the first glibc for this processor. All later releases have it, in
    // libc or in libdl. If the version did not exist, an error message would be allocated, possibly
    // by the interposed `malloc` that is calling this function.
    let version = if cfg!(target_arch = "x86_64") {
        c"GLIBC_2.2.5"
    } else {
        c"GLIBC_2.17"
    };
    // SAFETY: both names are C strings.
    let find = || unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
    // SAFETY: the name identifies a function of this type.
    unsafe { function(once(&FOUND, find)) }.unwrap_or(finds_nothing)
}

/// Returns the address in `known`. If there is none, stores the result of `find` there first. If
/// several threads do this at the same time, all of them find the same address.
pub(crate) fn once(known: &AtomicPtr<c_void>, find: impl FnOnce() -> *mut c_void) -> *mut c_void {
    let mut found = known.load(Ordering::Relaxed);
    if found.is_null() {
        found = find();
        known.store(found, Ordering::Relaxed);
    }
    found
}

/// Used in place of the C library's `dlsym` if there is none.
unsafe extern "C" fn finds_nothing(_: *mut c_void, _: *const c_char) -> *mut c_void {
    ptr::null_mut()
}

/// Returns the definition of `name` after ours; `None` if there is none. The definition is looked
/// up once.
///
/// # Safety
///
/// `F` is the type of the function with this name. The C library and every interposer share this
/// type.
pub(crate) unsafe fn behind<F: Copy>(known: &AtomicPtr<c_void>, name: &CStr) -> Option<F> {
    // SAFETY: the name is a C string, and the caller guarantees the type.
    unsafe { function(once(known, || dlsym()(libc::RTLD_NEXT, name.as_ptr()))) }
}

/// Closes a library without calling [the interposed function](super::dlclose).
///
/// # Safety
///
/// The condition is that of [`dlclose(3)`](https://man7.org/linux/man-pages/man3/dlclose.3.html):
/// `handle` comes from `dlopen` and has not been closed.
pub(crate) unsafe fn close(handle: *mut c_void) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

    // SAFETY: the name identifies a function of this type, and the caller upholds its contract.
    unsafe {
        let next: Option<unsafe extern "C" fn(*mut c_void) -> c_int> = behind(&NEXT, c"dlclose");
        next.map_or(-1, |close| close(handle))
    }
}
