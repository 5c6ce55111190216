//! Modules, libraries, and what links them.

use std::ptr;

use cudarc::driver::sys;

use super::{done, made};

/// A kernel that does nothing, for every GPU since 2018.
pub(super) const EMPTY_KERNEL: &std::ffi::CStr =
    c".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

pub(crate) fn module() -> sys::CUmodule {
    let image = EMPTY_KERNEL.as_ptr().cast();
    // SAFETY: the image is a C string.
    unsafe { made(|out| sys::cuModuleLoadData(out, image)) } // leak: module
}

/// A module of another text.
pub(crate) fn load(image: &std::ffi::CStr) -> sys::CUmodule {
    // SAFETY: the image is a C string.
    unsafe { made(|out| sys::cuModuleLoadData(out, image.as_ptr().cast())) }
}

pub(crate) fn unload(module: sys::CUmodule) {
    // SAFETY: the caller took it and uses it no more.
    done(unsafe { sys::cuModuleUnload(module) });
}

pub(crate) fn library() -> sys::CUlibrary {
    let image = EMPTY_KERNEL.as_ptr().cast();
    let none = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the image is a C string, and there are no options.
    unsafe {
        made(|out| {
            sys::cuLibraryLoadData(out, image, none.0, none.1, 0, ptr::null_mut(), none.1, 0) // leak: library
        })
    }
}

pub(crate) fn unload_library(library: sys::CUlibrary) {
    // SAFETY: the caller took it and uses it no more.
    done(unsafe { sys::cuLibraryUnload(library) });
}

pub(crate) fn link_state() -> sys::CUlinkState {
    // SAFETY: there are no options.
    unsafe { made(|out| sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), out)) } // leak: link_state
}

pub(crate) fn destroy_link_state(state: sys::CUlinkState) {
    // SAFETY: the caller took it and uses it no more.
    done(unsafe { sys::cuLinkDestroy(state) });
}
