//! Visits the program and its libraries, as the loader lists them.
#![expect(unsafe_code, reason = "calls the loader's C functions")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::{ptr, slice};

/// Calls `visit` for the program and for each library until it returns false. No library is loaded
/// or unloaded during the call.
pub fn visit_objects<F: FnMut(&libc::dl_phdr_info) -> bool>(mut visit: F) {
    unsafe extern "C" fn each<F: FnMut(&libc::dl_phdr_info) -> bool>(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `visit` is the closure below, which nothing
        // else uses.
        c_int::from(unsafe { !(*visit.cast::<F>())(&*object) })
    }
    // Miri has no loader.
    if !cfg!(miri) {
        // SAFETY: `each` is instantiated for this closure, which outlives the call and does not
        // unwind (running out of memory aborts).
        unsafe { libc::dl_iterate_phdr(Some(each::<F>), (&raw mut visit).cast()) };
    }
}

/// Returns how many libraries have been loaded and unloaded since the process began.
pub fn object_changes() -> (u64, u64) {
    let mut changes = (0, 0);
    visit_objects(|object| {
        changes = (object.dlpi_adds, object.dlpi_subs);
        false
    });
    changes
}

/// Returns the name of a visited object's file; empty for the program itself.
pub fn object_name(object: &libc::dl_phdr_info) -> &CStr {
    match object.dlpi_name.is_null() {
        true => c"",
        // SAFETY: the name that the loader has for an object ends with a zero byte and does not
        // change during the visit.
        false => unsafe { CStr::from_ptr(object.dlpi_name) },
    }
}

/// Returns the type, the flags and the addresses of each program header of a visited object.
pub fn segments(object: &libc::dl_phdr_info) -> impl Iterator<Item = (u32, u32, Range<usize>)> {
    // SAFETY: the loader passes the object's own program headers.
    let headers =
        unsafe { slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    headers.iter().map(|header| {
        let from = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let range = from..from.wrapping_add(header.p_memsz as usize);
        (header.p_type, header.p_flags, range)
    })
}

/// Returns the library that contains an address and the exported symbol to which it belongs, which
/// may be null. The names are C strings, valid while the library is loaded.
pub fn symbol_of(address: usize) -> Option<libc::Dl_info> {
    let (address, mut info) = (ptr::without_provenance(address), MaybeUninit::uninit());
    // SAFETY: the result is writable, a call that finds something writes all fields, and any
    // address may be queried.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init()) }
}

/// Calls `body` with a handle of the loaded object with this name, which stays loaded during the
/// call. Returns `None` if there is no such object. A `link_map` is a handle as well, but it does
/// not suffice for an object that was loaded at program start: the C library has no search list for
/// such an object until it is opened.
pub fn while_open<T>(name: &CStr, body: impl FnOnce(*mut c_void) -> T) -> Option<T> {
    // SAFETY: the call only asks for an object that is already loaded, and the name is a C string.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        // SAFETY: the call takes this thread's message, to which nothing else refers.
        unsafe { libc::dlerror() };
        return None;
    }
    let answer = body(handle);
    // SAFETY: the handle was opened above.
    unsafe { libc::dlclose(handle) };
    Some(answer)
}
