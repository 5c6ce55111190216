//! The end of the process, at the last moment at which code of this library runs.
//!
//! A program gives back what it holds in destructors of its statics and in exit handlers, some of which
//! are registered before ours and so run after them. Shared libraries have destructors, which run after
//! all of those, and in which the CUDA runtime unloads the program's code. This library's own may come
//! before them. What it registers then as an exit handler comes behind: the C library begins its list
//! of handlers anew when one was added, and the destructors of all libraries are one entry of it.

#![expect(unsafe_code, reason = "the loader calls what stands in this section")]

use std::ffi::{c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::OnceLock;

use gpu_leak_check::__inject::Attached;

static ATTACHED: OnceLock<&'static Attached> = OnceLock::new();

/// Has `attached` hear of the end of this process.
pub(crate) fn install(attached: &'static Attached) {
    // Err: a program initialises the driver more than once.
    let _ = ATTACHED.set(attached);
}

// SAFETY: the loader calls each entry of this section once, as a function without arguments, when
// the process exits; this one neither unwinds nor returns anything.
#[used]
#[unsafe(link_section = ".fini_array")]
static NEARLY_LAST: extern "C" fn() = nearly_last;

unsafe extern "C" {
    /// Of the [C++ ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#dso-dtor-runtime-api): a handler
    /// of no library, if that is null, is not run with the destructors of one.
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
}

extern "C" fn nearly_last() {
    // SAFETY: a function that takes the argument, which nobody looks at; this library stays loaded.
    let refused = unsafe { __cxa_atexit(last, ptr::null_mut(), ptr::null()) } != 0;
    if refused {
        last(ptr::null_mut());
    }
}

extern "C" fn last(_: *mut c_void) {
    if let Some(attached) = ATTACHED.get() {
        // Err: the program's own exit goes on, and its snapshots stand.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| attached.finish()));
    }
}
