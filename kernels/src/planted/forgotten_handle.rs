//! A tensor passed to `mem::forget`.

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "forgotten_handle", "a tensor is forgotten instead of dropped",
    Caching, "block", ["forgotten": 1 of 262_144], super::leak::SMALL_SEGMENT
}

fn run(device: &Device) -> Result<()> {
    let scratch = Tensor::zeros([256, 256], device)?; // leak: forgotten
    std::mem::forget(scratch);
    Ok(())
}
