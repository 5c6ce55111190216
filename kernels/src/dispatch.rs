//! Selects the implementation of the operations for a device's work.

use crate::capturing::is_capturing;
use crate::compute::Kernels;
use crate::device::{Backend, Device};
use crate::graph::Recorder;

/// Returns the executor of this thread's operations on a device: the recorder during a capture.
pub(crate) fn kernels_of(device: &Device) -> &dyn Kernels {
    if is_capturing() {
        return &Recorder;
    }
    match device.backend() {
        Backend::Embedded(embedded) => embedded,
        Backend::Cuda(cuda) => cuda,
    }
}
