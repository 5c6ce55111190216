//! Shared libraries: lists those in the process, and opens more.

#![expect(unsafe_code, reason = "the dynamic loader's interface is C")]

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
#[cfg(feature = "holders")]
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

#[cfg(feature = "holders")]
use gpu_leak_interpose::segments;
use gpu_leak_interpose::{function, real_symbol, symbol_of, while_open};
pub(crate) use gpu_leak_interpose::{object_changes as changes, visit_objects as visit};

/// Bind all symbols now, keep them private, and never unload.
const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;

/// A shared library of this process. It is never closed, so code and pointers into it stay valid.
#[derive(Debug)]
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: a handle is a number for the loader, whose functions accept it on any thread; it is never
// closed.
unsafe impl Send for Library {}
// SAFETY: as for `Send`.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library at a path, or one with this name that the loader finds.
    ///
    /// # Errors
    ///
    /// The loader's message.
    pub(crate) fn open(file: &Path) -> Result<Self, String> {
        Self::open_with(file, FLAGS)
    }

    /// Returns the library at this path if it is already loaded.
    pub(crate) fn loaded(file: &Path) -> Option<Self> {
        Self::open_with(file, FLAGS | libc::RTLD_NOLOAD).ok()
    }

    fn open_with(file: &Path, flags: c_int) -> Result<Self, String> {
        let name = CString::new(file.as_os_str().as_bytes())
            .map_err(|_| "its name has a zero byte".to_owned())?;
        // SAFETY: `name` ends with a zero byte and outlives the call. Opening a library runs its
        // initialisers; the libraries opened here are NVIDIA's, which may be opened at any time.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        NonNull::new(handle).map(Self).ok_or_else(last_error)
    }

    /// Returns the function called `name`, as the library exports it, as a function pointer of type `F`, if
    /// there is one.
    ///
    /// # Safety
    ///
    /// `F` is a function pointer type with the signature of the library's function `name`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the handle is open because it is never closed, and the caller guarantees the signature.
        unsafe { function(real_symbol(self.0.as_ptr(), name).cast_mut().cast()) }
    }
}

/// Returns the function called `name` of the library that contains `function`, as the library
/// exports it; null if there is none.
pub(crate) fn beside(function: *const (), name: &CStr) -> *const () {
    symbol_of(function.addr()).map_or(ptr::null(), |info| {
        // SAFETY: the library is loaded, and its name is a C string.
        exported_by(unsafe { CStr::from_ptr(info.dli_fname) }, name)
    })
}

/// Returns the function called `name` of a library, if the library is loaded; null if there is none.
fn exported_by(file: &CStr, name: &CStr) -> *const () {
    // SAFETY: the handle is that of an open library.
    while_open(file, |library| unsafe { real_symbol(library, name) }).unwrap_or(ptr::null())
}

/// Makes every library that exports a function called `name` stay loaded.
pub(crate) fn keep_loaded_with(name: &CStr) {
    let exports_it = |file: &PathBuf| {
        let file = CString::new(file.as_os_str().as_bytes());
        file.is_ok_and(|file| !exported_by(&file, name).is_null())
    };
    for file in modules().iter().filter(|file| exports_it(file)) {
        // None if it was closed meanwhile.
        Library::loaded(file);
    }
}

/// Returns the loader's last error on this thread.
fn last_error() -> String {
    // SAFETY: glibc keeps the message for this thread until its next call to the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: not null, so it is that message, which ends with a zero byte; it is copied before the
    // loader is called again.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// How many libraries have been loaded and unloaded so far.
pub(crate) type Changes = (u64, u64);

/// Returns the files of the shared libraries in this process, in the order of loading.
pub(crate) fn modules() -> Vec<PathBuf> {
    let mut list = Vec::new();
    visit(|object| {
        // SAFETY: the loader's name of an object ends with a zero byte and is stable during the visit.
        let name =
            (!object.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(object.dlpi_name) });
        let name = name.filter(|name| !name.is_empty());
        list.extend(name.map(|name| PathBuf::from(OsStr::from_bytes(name.to_bytes()))));
        true
    });
    list
}

/// Returns the addresses of the writable parts of the program and its libraries, which contain
/// statics.
#[cfg(feature = "holders")]
pub(crate) fn writable_parts() -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    visit(|object| {
        let writable = segments(object)
            .filter(|(kind, flags, _)| *kind == libc::PT_LOAD && flags & libc::PF_W != 0);
        parts.extend(writable.map(|(.., range)| range.start as u64..range.end as u64));
        true
    });
    parts
}

/// Returns the name of the exported function that the code at `address` belongs to.
pub(crate) fn exported(address: usize) -> Option<String> {
    let info = symbol_of(address)?;
    let name = NonNull::new(info.dli_sname.cast_mut())?;
    // SAFETY: a name in the symbol table of a library. It ends with a zero byte and is valid as
    // long as the library is loaded. CUDA's libraries are not unloaded while they are in use; a
    // caller that resolves a backtrace while a library in it is being closed has lost the backtrace
    // as well.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Library, exported, modules};

    #[test]
    fn the_c_library_is_found_in_the_process_and_has_functions() {
        let path = modules()
            .into_iter()
            .find(|path| path.to_string_lossy().contains("libc.so"))
            .expect("the C library is loaded");
        let library = Library::loaded(&path).expect("it is in the process");
        // SAFETY: the C library's `getpid` takes nothing and returns an int.
        let getpid: Option<unsafe extern "C" fn() -> i32> = unsafe { library.function(c"getpid") };
        // SAFETY: as above; the call has no preconditions.
        let pid = unsafe { getpid.unwrap()() };
        assert_eq!(u32::try_from(pid).unwrap(), std::process::id());
    }

    #[test]
    fn an_exported_function_is_known_by_an_address_inside_it() {
        let getpid = libc::getpid as *const () as usize;
        let name = exported(getpid + 1).expect("the C library exports it");
        assert!(name.contains("getpid"), "{name}");
        assert_eq!(exported(1), None);
    }

    #[test]
    fn a_library_that_is_not_there_is_an_error_with_its_name() {
        let error = Library::open(Path::new("libgpu-leak-check-missing.so.7")).unwrap_err();
        assert!(
            error.contains("libgpu-leak-check-missing.so.7"),
            "{error:?}"
        );
        assert!(Library::loaded(Path::new("libgpu-leak-check-missing.so.7")).is_none());
    }
}
