//! The beginning and the end of a process's check: when the library is loaded, and at the last
//! moment at which code of this library can run.
//!
//! A program frees its memory in destructors of its statics and in exit handlers, some of which are
//! registered before ours and therefore run after ours. The destructors of shared libraries run
//! after all of those. The CUDA runtime unloads the program's code in such a destructor. The
//! destructor of this library may run before those of others, so it registers another exit handler.
//! That handler runs after all destructors, because they are a single entry in the C library's list
//! of handlers, and the C library restarts that list whenever a handler is added.

#![expect(
    unsafe_code,
    reason = "places functions in sections from which the loader calls them"
)]

use std::ffi::{c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::OnceLock;

use gpu_leak_check::__inject::{self, Attached, Settings};

use crate::watcher;

static ATTACHED: OnceLock<&'static Attached> = OnceLock::new();

// SAFETY: the loader calls each entry of this section once, as a function without arguments, when
// the library is loaded; this one only stores a function pointer.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = on_load;

// SAFETY: the loader calls each entry of this section once, as a function without arguments, when
// the process exits; this one neither unwinds nor returns anything.
#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = on_unload;

unsafe extern "C" {
    /// According to the [C++
    /// ABI](https://itanium-cxx-abi.github.io/cxx-abi/abi.html#dso-dtor-runtime-api), a handler
    /// with a null library does not run with the destructors of a library.
    fn __cxa_atexit(
        handler: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *const c_void,
    ) -> c_int;
}

/// Makes the check begin before the driver is initialised. A program that never initialises the
/// driver is not affected any further.
extern "C" fn on_load() {
    __inject::before_initialisation(attach);
}

/// Begins the check. This is called once in a process, before the program initialises the driver.
fn attach() {
    // Without settings, this process is not meant to be watched.
    let Some(settings) = Settings::for_preloaded_library() else {
        return;
    };
    // This comes before attaching, since the first calls to the driver follow immediately. A Python
    // that is loaded later is not read.
    let python = gpu_leak_python::install();
    if let Some(attached) = __inject::attach(&settings) {
        match python {
            Ok(Some(_)) => gpu_leak_python::before_shutdown(python_ends),
            Ok(None) => {}
            Err(unsupported) => attached.note(unsupported.to_string()),
        }
        // An error means that the value is already set: a program may initialise the driver more
        // than once.
        let _ = ATTACHED.set(attached);
        watcher::start(attached, &settings);
    }
}

/// Runs when Python begins to shut down, after the program's own exit handlers.
fn python_ends() {
    if let Some(attached) = ATTACHED.get() {
        // An error means that the harness has panicked. The program still shuts down.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| attached.interpreter_ends()));
    }
}

extern "C" fn on_unload() {
    // SAFETY: the function takes the argument and ignores it, and this library stays loaded.
    let failed = unsafe { __cxa_atexit(on_exit, ptr::null_mut(), ptr::null()) } != 0;
    if failed {
        on_exit(ptr::null_mut());
    }
}

extern "C" fn on_exit(_: *mut c_void) {
    if let Some(attached) = ATTACHED.get() {
        // An error means that the harness has panicked. The program still exits, and its snapshots
        // remain.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| attached.finish()));
    }
}
