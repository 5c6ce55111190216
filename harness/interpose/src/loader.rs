//! Visits the program and its libraries, as the loader lists them.
#![expect(unsafe_code, reason = "the loader's interface is C")]

use std::ffi::{c_int, c_void};

/// Calls `visit` for the program and for each library until it returns false. None is loaded or unloaded
/// meanwhile.
pub fn visit_objects<F: FnMut(&libc::dl_phdr_info) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(&libc::dl_phdr_info) -> bool>(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry; `visit` is the closure below, which nothing else uses.
        c_int::from(unsafe { !(*visit.cast::<F>())(&*object) })
    }
    // Miri has no loader.
    if !cfg!(miri) {
        // SAFETY: `each` is made for this closure, which does not unwind (running out of memory
        // aborts) and outlives the walk.
        unsafe { libc::dl_iterate_phdr(Some(each::<F>), (&raw mut visit).cast()) };
    }
}

/// Returns how many libraries have been loaded and unloaded since the process began.
#[must_use]
pub fn object_changes() -> (u64, u64) {
    let mut changes = (0, 0);
    visit_objects(|object| {
        changes = (object.dlpi_adds, object.dlpi_subs);
        false
    });
    changes
}
