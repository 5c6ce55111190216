//! What parameters begin with.

use crate::device::Device;
use crate::error::Result;
use crate::tensor::{HostTensor, Tensor};

/// Evenly from `−bound..bound`, drawn on the host: so the same seed gives the same on every device.
pub(super) fn uniform(shape: &[usize], bound: f32, device: &Device) -> Result<Tensor> {
    HostTensor::rand(shape)?
        .map(|drawn| (2.0 * drawn - 1.0) * bound)
        .to(device)?
        .requires_grad_(true)
}
