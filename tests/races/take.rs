//! Functions that allocate memory of a given size with one call.

#![expect(unsafe_code, reason = "calls the driver")]

use cudarc::driver::result::{self, stream};

use crate::kinds::planted::Pointer;

pub(crate) fn linear(bytes: usize) -> Pointer {
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_sync(bytes) }.expect("memory")
}

pub(crate) fn stream_ordered(bytes: usize) -> Pointer {
    // SAFETY: the null stream always exists.
    unsafe { result::malloc_async(stream::null(), bytes) }.expect("memory")
}
