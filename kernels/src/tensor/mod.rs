//! Tensors: arrays on a device, each with its place in an autograd graph.
//!
//! A [`Tensor`] is a handle. Clones and views share the storage; the bytes are returned to the
//! device's allocator when the last of them is dropped, as in PyTorch.

mod backward;
mod create;
mod gradients;
mod host_tensor;
mod in_place;
mod loss;
mod matmul;
mod pointwise;
mod record;
mod reduce;
mod softmax;
mod transfer;
mod view;

use std::fmt;
use std::sync::Arc;

pub use host_tensor::HostTensor;

use crate::array::Array;
use crate::autograd::is_inference;
pub use crate::compute::{DType, Element, MAX_RANK};
use crate::device::Device;
pub use crate::random::manual_seed;

use gradients::Gradients;

/// Numbers on a device.
#[derive(Clone)]
pub struct Tensor(Arc<TensorImpl>);

struct TensorImpl {
    array: Array,
    /// Whether it was made in [`crate::autograd::inference_mode`] and so must not enter a graph.
    inference: bool,
    gradients: Gradients,
}

impl Tensor {
    /// Creates a tensor outside any graph.
    pub(crate) fn new(array: Array) -> Self {
        Self::with_gradients(array, Gradients::default())
    }

    fn with_gradients(array: Array, gradients: Gradients) -> Self {
        Self(Arc::new(TensorImpl {
            array,
            inference: is_inference(),
            gradients,
        }))
    }

    /// The contents of the tensor.
    pub(crate) fn array(&self) -> &Array {
        &self.0.array
    }

    /// Whether both are handles to the same tensor.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn is_inference(&self) -> bool {
        self.0.inference
    }

    fn gradients(&self) -> &Gradients {
        &self.0.gradients
    }

    /// The size in each dimension; empty for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.array().shape()
    }

    /// The number of elements.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.array().numel()
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.array().dtype()
    }

    /// The device that holds the tensor.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.array().device()
    }

    /// Whether the elements follow each other in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.array().is_contiguous()
    }

    /// The size of the tensor's storage in bytes, which may be more than the elements need.
    #[must_use]
    pub fn storage_bytes(&self) -> usize {
        self.array().storage().bytes()
    }
}

/// Does not show the contents, which may not have been computed yet.
impl fmt::Debug for Tensor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Tensor({:?}, {}, {}",
            self.shape(),
            self.dtype(),
            self.device()
        )?;
        if self.gradients().is_required() {
            out.write_str(", requires_grad")?;
        }
        out.write_str(")")
    }
}
