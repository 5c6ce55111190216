//! Numbers in ordinary host memory, outside any device.

use super::Tensor;
use crate::array::Array;
use crate::compute::{DType, Dims, Element, Layout};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::random::{self, Distribution};

/// Numbers on the host: the contents of data sets and the initial values of layers.
///
/// Its memory comes from no device's allocator, just as PyTorch's CPU tensors use none of the GPU's
/// memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    shape: Dims,
    values: Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl HostTensor {
    /// Creates a tensor that owns the numbers, in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has a different number of elements.
    pub fn from_f32(values: Vec<f32>, shape: impl AsRef<[usize]>) -> Result<Self> {
        Self::checked("HostTensor::from_f32", Values::F32(values), shape.as_ref())
    }

    /// Creates a tensor that owns the integers, in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has a different number of elements.
    pub fn from_i64(values: Vec<i64>, shape: impl AsRef<[usize]>) -> Result<Self> {
        Self::checked("HostTensor::from_i64", Values::I64(values), shape.as_ref())
    }

    /// Draws uniformly from [0, 1).
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has too many dimensions or elements.
    pub fn rand(shape: impl AsRef<[usize]>) -> Result<Self> {
        Self::drawn("HostTensor::rand", Distribution::Uniform, shape.as_ref())
    }

    /// Draws from the normal distribution with mean 0 and variance 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape has too many dimensions or elements.
    pub fn randn(shape: impl AsRef<[usize]>) -> Result<Self> {
        Self::drawn("HostTensor::randn", Distribution::Normal, shape.as_ref())
    }

    /// Draws integers uniformly from `low..high`.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or the shape has too many dimensions or elements.
    pub fn randint(low: i64, high: i64, shape: impl AsRef<[usize]>) -> Result<Self> {
        let operation = "HostTensor::randint";
        if low >= high {
            return Err(Error::Argument {
                operation,
                detail: format!("the range {low}..{high} is empty"),
            });
        }
        let layout = Layout::contiguous(operation, shape.as_ref())?;
        let values = random::integers(random::next_seed(), low, high, layout.count());
        Ok(Self {
            shape: layout.shape,
            values: Values::I64(values),
        })
    }

    fn drawn(operation: &'static str, distribution: Distribution, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(operation, shape)?;
        let mut values = vec![0.0; layout.count()];
        random::fill(distribution, random::next_seed(), &mut values);
        Ok(Self {
            shape: layout.shape,
            values: Values::F32(values),
        })
    }

    fn checked(operation: &'static str, values: Values, shape: &[usize]) -> Result<Self> {
        let layout = Layout::contiguous(operation, shape)?;
        let own = Self {
            shape: layout.shape,
            values,
        };
        if own.len() != layout.count() {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "{} values do not fit the shape {:?}",
                    own.len(),
                    layout.shape
                ),
            });
        }
        Ok(own)
    }

    fn len(&self) -> usize {
        match &self.values {
            Values::F32(values) => values.len(),
            Values::I64(values) => values.len(),
        }
    }

    /// The size in each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self.values {
            Values::F32(_) => DType::F32,
            Values::I64(_) => DType::I64,
        }
    }

    /// Applies a function to each number; integers stay as they are.
    #[must_use]
    pub fn map(mut self, function: impl Fn(f32) -> f32) -> Self {
        if let Values::F32(values) = &mut self.values {
            for value in values {
                *value = function(*value);
            }
        }
        self
    }

    /// Returns a copy on a device.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or the transfer fails.
    pub fn to(&self, device: &Device) -> Result<Tensor> {
        let copy = match &self.values {
            Values::F32(values) => Array::from_slice(values, self.shape, device),
            Values::I64(values) => Array::from_slice(values, self.shape, device),
        };
        copy.map(Tensor::new)
    }

    /// Returns the selected entries of the first dimension, in the given order.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor is a scalar or an index is too large.
    pub fn rows(&self, indices: &[usize]) -> Result<Self> {
        let operation = "HostTensor::rows";
        let (&count, rest) = self.shape.split_first().ok_or_else(|| Error::Shape {
            operation,
            detail: "a scalar has no rows".into(),
        })?;
        if let Some(index) = indices.iter().find(|&&index| index >= count) {
            return Err(Error::Argument {
                operation,
                detail: format!("row {index} does not exist in shape {:?}", self.shape),
            });
        }
        let width: usize = rest.iter().product();
        let mut shape = self.shape;
        shape[0] = indices.len();
        let values = match &self.values {
            Values::F32(values) => Values::F32(gather(values, indices, width)),
            Values::I64(values) => Values::I64(gather(values, indices, width)),
        };
        Ok(Self { shape, values })
    }
}

fn gather<T: Element>(values: &[T], indices: &[usize], width: usize) -> Vec<T> {
    let mut rows = Vec::with_capacity(indices.len() * width);
    for index in indices {
        rows.extend_from_slice(&values[index * width..(index + 1) * width]);
    }
    rows
}
