//! New tensors.

use crate::device::Device;
use crate::error::{Error, Result};

use super::Tensor;
use super::dtype::{DType, Element};
use super::kernels::Distribution;
use super::layout::{Dims, Layout};
use super::random::next_seed;

impl Tensor {
    /// All zeros, of `f32`.
    ///
    /// # Errors
    ///
    /// When the device has no room, or the shape is too large.
    pub fn zeros(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::zeros_of(DType::F32, shape, device)
    }

    /// All zeros, of a type.
    ///
    /// # Errors
    ///
    /// When the device has no room, or the shape is too large.
    pub fn zeros_of(dtype: DType, shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        let layout = Layout::contiguous("zeros", shape.as_ref())?;
        let out = Self::empty(device, layout, dtype)?;
        device.kernels().zero(out.storage())?;
        Ok(out)
    }

    /// One number everywhere.
    ///
    /// # Errors
    ///
    /// When the device has no room, or the shape is too large.
    pub fn full(shape: impl AsRef<[usize]>, value: f32, device: &Device) -> Result<Self> {
        let layout = Layout::contiguous("full", shape.as_ref())?;
        let out = Self::empty(device, layout, DType::F32)?;
        device.kernels().fill(value, out.operand())?;
        Ok(out)
    }

    /// A copy of numbers on the host, in row-major order.
    ///
    /// # Errors
    ///
    /// When the shape does not have as many elements, or the device has no room.
    pub fn from_vec<T: Element>(
        values: Vec<T>,
        shape: impl AsRef<[usize]>,
        device: &Device,
    ) -> Result<Self> {
        let shape = Dims::new("from_vec", shape.as_ref())?;
        Self::from_slice(&values, shape, device)
    }

    pub(crate) fn from_slice<T: Element>(
        values: &[T],
        shape: Dims,
        device: &Device,
    ) -> Result<Self> {
        let layout = Layout::contiguous("from_vec", &shape)?;
        if layout.count() != values.len() {
            return Err(Error::Shape {
                operation: "from_vec",
                detail: format!("{} values do not fill the shape {shape:?}", values.len()),
            });
        }
        let out = Self::empty(device, layout, T::DTYPE)?;
        device
            .kernels()
            .upload(bytemuck::cast_slice(values), out.storage())?;
        Ok(out)
    }

    /// Draws evenly from [0, 1).
    ///
    /// # Errors
    ///
    /// When the device has no room, or the shape is too large.
    pub fn rand(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::draw("rand", Distribution::Uniform, shape.as_ref(), device)
    }

    /// Draws from the normal distribution of mean 0 and variance 1.
    ///
    /// # Errors
    ///
    /// When the device has no room, or the shape is too large.
    pub fn randn(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::draw("randn", Distribution::Normal, shape.as_ref(), device)
    }

    /// As [`Self::randn`], with this tensor's shape and device.
    ///
    /// # Errors
    ///
    /// When the device has no room.
    pub fn randn_like(&self) -> Result<Self> {
        self.expect_dtype("randn_like", DType::F32)?;
        Self::draw(
            "randn_like",
            Distribution::Normal,
            self.shape(),
            self.device(),
        )
    }

    fn draw(
        operation: &'static str,
        distribution: Distribution,
        shape: &[usize],
        device: &Device,
    ) -> Result<Self> {
        let layout = Layout::contiguous(operation, shape)?;
        let out = Self::empty(device, layout, DType::F32)?;
        device
            .kernels()
            .random(distribution, next_seed(), out.operand())?;
        Ok(out)
    }
}
