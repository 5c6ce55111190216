//! The dynamic loader of Linux.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
#[cfg(feature = "holders")]
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

pub(crate) use gpu_leak_interpose::object_changes as changes;
#[cfg(feature = "holders")]
use gpu_leak_interpose::segments;
use gpu_leak_interpose::{object_name, real_symbol, symbol_of, visit_objects, while_open};

/// Flags that bind all symbols immediately, keep them private, and keep the library loaded.
const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;

/// Opens a library, or returns the loader's error message. With `if_loaded`, succeeds only if the
/// library is already loaded.
pub(super) fn open(file: &Path, if_loaded: bool) -> Result<NonNull<c_void>, String> {
    let name = CString::new(file.as_os_str().as_bytes())
        .map_err(|_| "its name contains a NUL byte".to_owned())?;
    let flags = FLAGS | if if_loaded { libc::RTLD_NOLOAD } else { 0 };
    // SAFETY: `name` ends with a zero byte and outlives the call. Opening a library runs its
    // initialisers, but the libraries that are opened here are NVIDIA's, which may be opened at any
    // time.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    NonNull::new(handle).ok_or_else(last_error)
}

/// Returns the function of a library with this name; `None` if there is none.
///
/// # Safety
///
/// The library is open, and `F` is a function pointer type with the function's signature.
pub(super) unsafe fn function<F: Copy>(library: NonNull<c_void>, name: &CStr) -> Option<F> {
    // SAFETY: the caller upholds the contract.
    unsafe { gpu_leak_interpose::function(real_symbol(library.as_ptr(), name).cast_mut().cast()) }
}

/// Returns the function called `name` that the library of `function` exports; null if there is
/// none.
pub(crate) fn beside(function: *const (), name: &CStr) -> *const () {
    symbol_of(function.addr()).map_or(ptr::null(), |info| {
        // SAFETY: the library is loaded, and its name is a C string.
        exported_by(unsafe { CStr::from_ptr(info.dli_fname) }, name)
    })
}

/// Returns the function called `name` that a library exports; null if there is none, or if the
/// library is not loaded.
fn exported_by(file: &CStr, name: &CStr) -> *const () {
    // SAFETY: the handle belongs to an open library.
    while_open(file, |library| unsafe { real_symbol(library, name) }).unwrap_or(ptr::null())
}

/// Keeps loaded every library that exports a function called `name`.
pub(crate) fn keep_loaded_with(name: &CStr) {
    let exports_it = |file: &PathBuf| {
        let file = CString::new(file.as_os_str().as_bytes());
        file.is_ok_and(|file| !exported_by(&file, name).is_null())
    };
    for file in modules().iter().filter(|file| exports_it(file)) {
        // This fails if the library has been closed in the meantime.
        let _ = open(file, true);
    }
}

/// Returns the loader's last error message on this thread.
fn last_error() -> String {
    // SAFETY: glibc keeps the message for this thread until the thread calls the loader again.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gave no reason".to_owned();
    }
    // SAFETY: the pointer is not null, so it points to that message, which ends with a zero byte.
    // The message is copied before the loader is called again.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Returns the files of the shared libraries in this process, in the order in which they were
/// loaded.
pub(crate) fn modules() -> Vec<PathBuf> {
    let mut list = Vec::new();
    visit_objects(|object| {
        let name = OsStr::from_bytes(object_name(object).to_bytes());
        list.extend((!name.is_empty()).then(|| PathBuf::from(name)));
        true
    });
    list
}

/// Returns the addresses of the writable parts of the program and its libraries, which contain
/// their statics.
#[cfg(feature = "holders")]
pub(crate) fn writable_parts() -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    visit_objects(|object| {
        let writable = segments(object)
            .filter(|(kind, flags, _)| *kind == libc::PT_LOAD && flags & libc::PF_W != 0);
        parts.extend(writable.map(|(.., range)| range.start as u64..range.end as u64));
        true
    });
    parts
}

/// Returns the name of the exported function to which the code at `address` belongs.
pub(crate) fn exported(address: usize) -> Option<String> {
    let info = symbol_of(address)?;
    let name = NonNull::new(info.dli_sname.cast_mut())?;
    // SAFETY: this is a name in the symbol table of a library. It ends with a zero byte and is
    // valid as long as the library is loaded. CUDA's libraries are not unloaded while they are in
    // use. If a library is being closed while a backtrace through it is resolved, the backtrace
    // itself is no longer usable either.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(name.to_string_lossy().into_owned())
}
