//! New arrays.

use super::Array;
use crate::compute::{DType, Dims, Element, Layout};
use crate::device::Device;
use crate::dispatch::kernels_of;
use crate::error::{Error, Result};
use crate::random::{Distribution, next_seed};

impl Array {
    pub(crate) fn zeros(dtype: DType, shape: &[usize], device: &Device) -> Result<Self> {
        let layout = Layout::contiguous("zeros", shape)?;
        let out = Self::empty(device, layout, dtype)?;
        kernels_of(device).zero(out.storage())?;
        Ok(out)
    }

    /// Creates an array in which every element is the same number.
    pub(crate) fn full(shape: &[usize], value: f32, device: &Device) -> Result<Self> {
        let layout = Layout::contiguous("full", shape)?;
        let out = Self::empty(device, layout, DType::F32)?;
        kernels_of(device).fill(value, out.operand())?;
        Ok(out)
    }

    /// Copies numbers from the host, in row-major order.
    pub(crate) fn from_slice<T: Element>(
        values: &[T],
        shape: Dims,
        device: &Device,
    ) -> Result<Self> {
        let layout = Layout::contiguous("from_vec", &shape)?;
        if layout.count() != values.len() {
            return Err(Error::Shape {
                operation: "from_vec",
                detail: format!("{} values do not fit the shape {shape:?}", values.len()),
            });
        }
        let out = Self::empty(device, layout, T::DTYPE)?;
        kernels_of(device).upload(bytemuck::cast_slice(values), out.storage())?;
        Ok(out)
    }

    /// Creates an array of random numbers, drawn with the next seed of this thread.
    pub(crate) fn draw(
        operation: &'static str,
        distribution: Distribution,
        shape: &[usize],
        device: &Device,
    ) -> Result<Self> {
        let layout = Layout::contiguous(operation, shape)?;
        let out = Self::empty(device, layout, DType::F32)?;
        kernels_of(device).random(distribution, next_seed(), out.operand())?;
        Ok(out)
    }
}
