//! Which implementation of the operations a device's work goes to.

use crate::capturing::is_capturing;
use crate::compute::Kernels;
use crate::device::{Backend, Device};
use crate::graph::Recorder;

/// What carries out this thread's operations on a device: in a capture, what records them.
pub(crate) fn kernels_of(device: &Device) -> &dyn Kernels {
    if is_capturing() {
        return &Recorder;
    }
    match device.backend() {
        Backend::Embedded(embedded) => embedded,
        Backend::Cuda(cuda) => cuda,
    }
}
