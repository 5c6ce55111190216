//! Modules and libraries, and the state that links them.

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::result::stream;
use cudarc::driver::sys;

use super::{done, made};

/// A kernel that does nothing, for every GPU since 2018.
const EMPTY_KERNEL: &CStr =
    c".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

pub(crate) fn module() -> sys::CUmodule {
    let image = EMPTY_KERNEL.as_ptr().cast();
    // SAFETY: the image is a C string.
    unsafe { made(|out| sys::cuModuleLoadData(out, image)) } // leak: module
}

/// Loads a module from an image other than that of [`module`].
pub(crate) fn load(image: &CStr) -> sys::CUmodule {
    // SAFETY: the image is a C string.
    unsafe { made(|out| sys::cuModuleLoadData(out, image.as_ptr().cast())) }
}

pub(crate) fn kernel(module: sys::CUmodule, name: &CStr) -> sys::CUfunction {
    // SAFETY: the module is loaded, and the name is a C string.
    unsafe { made(|out| sys::cuModuleGetFunction(out, module, name.as_ptr())) }
}

/// Runs the empty kernel of [`module`].
pub(crate) fn launch_nothing(module: sys::CUmodule) {
    let kernel = kernel(module, c"nothing");
    let (stream, none) = (stream::null(), ptr::null_mut());
    // SAFETY: the kernel has no parameters, and the null stream always exists.
    done(unsafe {
        sys::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, none, ptr::null_mut())
    });
}

pub(crate) fn unload(module: sys::CUmodule) {
    // SAFETY: the caller loaded the module and no longer uses it.
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
    // SAFETY: the caller loaded the library and no longer uses it.
    done(unsafe { sys::cuLibraryUnload(library) });
}

pub(crate) fn link_state() -> sys::CUlinkState {
    // SAFETY: there are no options.
    unsafe { made(|out| sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), out)) } // leak: link_state
}

pub(crate) fn destroy_link_state(state: sys::CUlinkState) {
    // SAFETY: the caller created the link state and no longer uses it.
    done(unsafe { sys::cuLinkDestroy(state) });
}
