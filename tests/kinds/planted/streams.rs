//! Streams and events.

use cudarc::driver::sys;

use super::contexts::shared_green_context;
use super::{done, made};

const NON_BLOCKING: u32 = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;

pub(crate) fn plain() -> sys::CUstream {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuStreamCreate(out, NON_BLOCKING)) } // leak: stream
}

pub(crate) fn with_priority() -> sys::CUstream {
    // SAFETY: a context is current; every device supports the priority 0.
    unsafe { made(|out| sys::cuStreamCreateWithPriority(out, NON_BLOCKING, 0)) } // leak: stream_with_priority
}

pub(crate) fn green() -> sys::CUstream {
    let context = shared_green_context();
    // SAFETY: the green context is never destroyed.
    unsafe { made(|out| sys::cuGreenCtxStreamCreate(out, context, NON_BLOCKING, 0)) } // leak: stream_of_a_green_context
}

pub(crate) fn destroy(stream: sys::CUstream) {
    // SAFETY: the caller created the stream and no longer uses it.
    done(unsafe { sys::cuStreamDestroy_v2(stream) });
}

pub(crate) fn event() -> sys::CUevent {
    // SAFETY: a context is current.
    unsafe { made(|out| sys::cuEventCreate(out, 0)) } // leak: event
}

pub(crate) fn destroy_event(event: sys::CUevent) {
    // SAFETY: the caller created the event and no longer uses it.
    done(unsafe { sys::cuEventDestroy_v2(event) });
}
