//! The initial values of parameters.

use crate::device::Device;
use crate::error::Result;
use crate::tensor::{HostTensor, Tensor};

/// Draws uniformly from `−bound..bound` on the host, so that a seed gives the same values on every
/// device.
pub(super) fn uniform(shape: &[usize], bound: f32, device: &Device) -> Result<Tensor> {
    HostTensor::rand(shape)?
        .map(|drawn| (2.0 * drawn - 1.0) * bound)
        .to(device)?
        .requires_grad_(true)
}
