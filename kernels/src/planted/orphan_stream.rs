//! A stream that is never destroyed.

use crate::device::Device;
use crate::error::{Error, Result};

super::leak::planted! {
    "orphan_stream", "a stream is forgotten instead of dropped",
    Driver, "stream", ["stream": 1 of 0], 0
}

fn run(device: &Device) -> Result<()> {
    let cuda = device.as_cuda().ok_or_else(|| Error::Unavailable {
        device: device.to_string(),
        detail: "a stream of the driver requires a CUDA device".into(),
    })?;
    let stream = cuda.context().new_stream()?; // leak: stream
    std::mem::forget(stream);
    Ok(())
}
