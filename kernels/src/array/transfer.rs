//! Transfers from the device to the host.

use super::Array;
use crate::compute::{DType, Element};
use crate::dispatch::kernels_of;
use crate::error::{Error, Result};

impl Array {
    /// The numbers in row-major order. Waits for the device.
    pub(crate) fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype("to_vec", T::DTYPE)?;
        let dense = self.packed()?;
        let mut values = vec![T::zeroed(); dense.numel()];
        kernels_of(self.device()).download(
            dense.storage(),
            dense.layout().offset * T::DTYPE.bytes(),
            bytemuck::cast_slice_mut(&mut values),
        )?;
        Ok(values)
    }

    /// The number in an array that has exactly one element. Waits for the device.
    pub(crate) fn item(&self) -> Result<f32> {
        self.expect_dtype("item", DType::F32)?;
        if self.numel() != 1 {
            return Err(Error::Shape {
                operation: "item",
                detail: format!(
                    "expected exactly one element, found shape {:?}",
                    self.shape()
                ),
            });
        }
        let mut value = 0.0_f32;
        kernels_of(self.device()).download(
            self.storage(),
            self.layout().offset * DType::F32.bytes(),
            bytemuck::bytes_of_mut(&mut value),
        )?;
        Ok(value)
    }
}
