//! Which implementation of the operations a device's work goes to.

use crate::capturing::is_capturing;
use crate::compute::Kernels;
use crate::device::{Backend, Device};
use crate::graph::Recorder;

impl Device {
    /// What carries out this thread's operations on the device: in a capture, what records them.
    pub(crate) fn kernels(&self) -> &dyn Kernels {
        if is_capturing() {
            return &Recorder;
        }
        match self.backend() {
            Backend::Embedded(embedded) => embedded,
            Backend::Cuda(cuda) => cuda,
        }
    }
}
