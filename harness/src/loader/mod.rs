//! Shared libraries: lists those in the process, and opens others.

#![expect(unsafe_code, reason = "calls the dynamic loader's C functions")]

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::ptr::NonNull;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod mapped;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
use elsewhere as system;

#[cfg(target_os = "linux")]
pub(crate) use gpu_leak_interpose::visit_objects as visit;
#[cfg(feature = "holders")]
pub(crate) use system::writable_parts;
pub(crate) use system::{beside, changes, exported, keep_loaded_with, modules};

/// How many libraries have been loaded and unloaded so far.
pub(crate) type Changes = (u64, u64);

/// A shared library of this process. It is never closed, so code and pointers into it stay valid.
#[derive(Debug)]
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: to callers, a handle is only a number. The loader's functions accept it on any thread,
// and it is never closed.
unsafe impl Send for Library {}
// SAFETY: a shared handle, too, is only a number to callers, and the loader's functions may be
// called by several threads at once.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library at a path, or the library with this name that the loader finds.
    ///
    /// # Errors
    ///
    /// Returns the loader's error message.
    pub(crate) fn open(file: &Path) -> Result<Self, String> {
        system::open(file, false).map(Self)
    }

    /// Returns the library at this path if it is already loaded.
    pub(crate) fn loaded(file: &Path) -> Option<Self> {
        system::open(file, true).ok().map(Self)
    }

    /// Returns the function called `name` that the library exports, as a function pointer of type
    /// `F`; `None` if there is none.
    ///
    /// # Safety
    ///
    /// `F` is a function pointer type with the signature of the library's function `name`.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the handle is open, because it is never closed, and the caller vouches for the
        // signature.
        unsafe { system::function(self.0, name) }
    }
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
        let library = Library::loaded(&path).expect("the loader finds the C library");
        // SAFETY: the C library's `getpid` takes no arguments and returns an int.
        let getpid: Option<unsafe extern "C" fn() -> i32> = unsafe { library.function(c"getpid") };
        // SAFETY: the function is `getpid`, which has no preconditions.
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
