//! Transfers from the device to the host and to other devices.

use super::Tensor;
use crate::array::Array;
use crate::compute::{DType, Element};
use crate::device::Device;
use crate::error::Result;

impl Tensor {
    /// The same numbers on a device: this tensor itself if it is already there, otherwise a copy.
    ///
    /// Between devices the numbers pass through the host, and the copy begins a new graph.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or the transfer fails.
    pub fn to(&self, device: &Device) -> Result<Self> {
        if self.device() == device {
            return Ok(self.clone());
        }
        let (array, shape) = (self.array(), self.array().layout().shape);
        let copy = match self.dtype() {
            DType::F32 => Array::from_slice(&array.to_vec::<f32>()?, shape, device),
            DType::I64 => Array::from_slice(&array.to_vec::<i64>()?, shape, device),
        };
        copy.map(Self::new)
    }

    /// The numbers in row-major order. Waits for the device.
    ///
    /// # Errors
    ///
    /// Returns an error if `T` is not the element type or the transfer fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.array().to_vec()
    }

    /// The number in a tensor that has exactly one element. Waits for the device.
    ///
    /// # Errors
    ///
    /// Returns an error unless there is exactly one element of type `f32`, or if the transfer
    /// fails.
    pub fn item(&self) -> Result<f32> {
        self.array().item()
    }
}
