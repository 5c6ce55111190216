//! Page-locked host memory that is never freed.
#![expect(unsafe_code, reason = "page-locked memory needs a call to the driver")]

use cudarc::driver::result;

use crate::device::Device;
use crate::error::{Error, Result};

super::leak::planted! {
    "pinned_host_buffer", "page-locked host memory is never freed",
    Driver, "pinned", ["pinned": 1 of 1_048_576], 0
}

fn run(device: &Device) -> Result<()> {
    let cuda = device.as_cuda().ok_or_else(|| Error::Unavailable {
        device: device.to_string(),
        detail: "page-locked memory requires a CUDA device".into(),
    })?;
    cuda.context().bind_to_thread()?;
    // SAFETY: a context is current, and the memory is never used.
    let _staging = unsafe { result::malloc_host(1 << 20, 0) }?; // leak: pinned
    Ok(())
}
