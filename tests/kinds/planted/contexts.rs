//! Created contexts, and green contexts.

use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::{done, made};

/// Creates a context, which becomes current on this thread.
pub(crate) fn own() -> sys::CUcontext {
    // SAFETY: no parameters are needed.
    unsafe { made(|out| sys::cuCtxCreate_v4(out, ptr::null_mut(), 0, 0)) } // leak: context
}

pub(crate) fn destroy(context: sys::CUcontext) {
    // SAFETY: the caller created the context; nothing in it is used any longer.
    done(unsafe { sys::cuCtxDestroy_v2(context) });
}

/// Creates a green context with all multiprocessors of the device.
pub(crate) fn green() -> sys::CUgreenCtx {
    let kind = sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    // SAFETY: the call writes the resource to a local variable.
    let mut processors = unsafe { made(|out| sys::cuDeviceGetDevResource(0, out, kind)) };
    // SAFETY: there is one resource, which was just written.
    let description =
        unsafe { made(|out| sys::cuDevResourceGenerateDesc(out, &mut processors, 1)) };
    let flags = sys::CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
    // SAFETY: the description was just made.
    unsafe { made(|out| sys::cuGreenCtxCreate(out, description, 0, flags)) } // leak: green_context
}

pub(crate) fn destroy_green(context: sys::CUgreenCtx) {
    // SAFETY: the caller created the green context and no longer uses it.
    done(unsafe { sys::cuGreenCtxDestroy(context) });
}

/// Returns a green context that is created once and kept.
pub(crate) fn shared_green_context() -> sys::CUgreenCtx {
    static CONTEXT: OnceLock<usize> = OnceLock::new();
    let context = *CONTEXT.get_or_init(|| green().expose_provenance());
    ptr::with_exposed_provenance_mut(context)
}
