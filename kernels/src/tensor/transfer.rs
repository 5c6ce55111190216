//! From the device to the host and to other devices.

use crate::device::Device;
use crate::error::{Error, Result};

use super::dtype::Element;
use super::{DType, Tensor};

impl Tensor {
    /// The same numbers on a device: this very tensor if it is there already, else a copy.
    ///
    /// Between devices the numbers pass through the host, and the copy begins a graph of its own.
    ///
    /// # Errors
    ///
    /// When the device has no room or the transfer fails.
    pub fn to(&self, device: &Device) -> Result<Self> {
        if self.device() == device {
            return Ok(self.clone());
        }
        match self.dtype() {
            DType::F32 => Self::from_slice(&self.to_vec::<f32>()?, self.layout().shape, device),
            DType::I64 => Self::from_slice(&self.to_vec::<i64>()?, self.layout().shape, device),
        }
    }

    /// The numbers in row-major order. Waits for the device.
    ///
    /// # Errors
    ///
    /// When `T` is not the element type or the transfer fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype("to_vec", T::DTYPE)?;
        let dense = self.packed()?;
        let mut values = vec![T::zeroed(); dense.numel()];
        self.device().kernels().download(
            dense.storage(),
            dense.layout().offset * T::DTYPE.bytes(),
            bytemuck::cast_slice_mut(&mut values),
        )?;
        Ok(values)
    }

    /// The one number of a tensor with one element. Waits for the device.
    ///
    /// # Errors
    ///
    /// When it has more elements or none, is not of `f32`, or the transfer fails.
    pub fn item(&self) -> Result<f32> {
        self.expect_dtype("item", DType::F32)?;
        if self.numel() != 1 {
            return Err(Error::Shape {
                operation: "item",
                detail: format!("shape {:?} does not have exactly one element", self.shape()),
            });
        }
        let mut value = 0.0_f32;
        self.device().kernels().download(
            self.storage(),
            self.layout().offset * DType::F32.bytes(),
            bytemuck::bytes_of_mut(&mut value),
        )?;
        Ok(value)
    }
}
