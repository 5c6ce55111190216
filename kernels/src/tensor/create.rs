//! New tensors.

use super::Tensor;
use crate::array::Array;
use crate::compute::{DType, Dims, Element};
use crate::device::Device;
use crate::error::Result;
use crate::random::Distribution;

impl Tensor {
    /// Creates a tensor of zeros with element type `f32`.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory, or the shape is too large.
    pub fn zeros(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Array::zeros(DType::F32, shape.as_ref(), device).map(Self::new)
    }

    /// Creates a tensor in which every element is the same number.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory, or the shape is too large.
    pub fn full(shape: impl AsRef<[usize]>, value: f32, device: &Device) -> Result<Self> {
        Array::full(shape.as_ref(), value, device).map(Self::new)
    }

    /// Copies numbers from the host, in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has a different number of elements, or the device is out of
    /// memory.
    pub fn from_vec<T: Element>(
        values: Vec<T>,
        shape: impl AsRef<[usize]>,
        device: &Device,
    ) -> Result<Self> {
        let shape = Dims::new("from_vec", shape.as_ref())?;
        Array::from_slice(&values, shape, device).map(Self::new)
    }

    /// Draws uniformly from [0, 1).
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory, or the shape is too large.
    pub fn rand(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::draw("rand", Distribution::Uniform, shape.as_ref(), device)
    }

    /// Draws from the normal distribution with mean 0 and variance 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory, or the shape is too large.
    pub fn randn(shape: impl AsRef<[usize]>, device: &Device) -> Result<Self> {
        Self::draw("randn", Distribution::Normal, shape.as_ref(), device)
    }

    /// Draws from the normal distribution with mean 0 and variance 1, with this tensor's shape and
    /// device.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory.
    pub fn randn_like(&self) -> Result<Self> {
        self.array().expect_dtype("randn_like", DType::F32)?;
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
        Array::draw(operation, distribution, shape, device).map(Self::new)
    }
}
