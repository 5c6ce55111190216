//! Tensors: numbers of one type and shape on one device.
//!
//! A [`Tensor`] is a handle. Clones and views share the storage; the bytes go back to the device's
//! allocator when the last of them is dropped, as PyTorch's do. Every operation takes exactly the
//! storages that PyTorch's eager operation leaves behind.

mod create;
mod dtype;
mod host;
mod host_tensor;
mod kernels;
mod layout;
mod ops;
mod random;
mod storage;
mod transfer;
mod view;

use std::fmt;
use std::sync::Arc;

pub use dtype::{DType, Element};
pub use host_tensor::HostTensor;
pub use layout::MAX_RANK;
pub use random::manual_seed;
pub(crate) use random::permutation;

pub(crate) use kernels::{
    AdamParameter, AdamStep, Binary, Distribution, Epilogue, Kernels, Operand, SgdParameter,
    SgdStep, SoftmaxKind, Unary,
};
pub(crate) use layout::{Around, Dims, Layout};
pub(crate) use ops::{binary, sum_to};
pub(crate) use storage::Storage;

use crate::autograd::Gradients;
use crate::device::Device;
use crate::error::{Error, Result};

/// Numbers on a device.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    storage: Arc<Storage>,
    layout: Layout,
    dtype: DType,
    /// Made under [`crate::autograd::inference_mode`], so it must not enter a graph.
    inference: bool,
    gradients: Gradients,
}

impl Tensor {
    /// A tensor over a storage, outside every graph.
    pub(crate) fn over(storage: Arc<Storage>, layout: Layout, dtype: DType) -> Self {
        Self(Arc::new(Inner {
            storage,
            layout,
            dtype,
            inference: crate::autograd::is_inference(),
            gradients: Gradients::default(),
        }))
    }

    /// A contiguous tensor whose content is yet to be written.
    pub(crate) fn empty(device: &Device, layout: Layout, dtype: DType) -> Result<Self> {
        let storage = Storage::new(device, layout.count() * dtype.bytes())?;
        Ok(Self::over(Arc::new(storage), layout, dtype))
    }

    /// Its size in each dimension; none for a scalar.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.0.layout.shape
    }

    /// How far apart in elements the neighbours in each dimension lie.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.0.layout.strides
    }

    /// How many elements it has.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.0.layout.count()
    }

    /// What its elements are.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Where it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.0.storage.device()
    }

    /// Whether its elements follow each other in row-major order.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    /// The bytes of the storage behind it, which may be more than its elements need.
    #[must_use]
    pub fn storage_bytes(&self) -> usize {
        self.0.storage.bytes()
    }

    pub(crate) fn layout(&self) -> Layout {
        self.0.layout
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.0.storage
    }

    pub(crate) fn is_inference(&self) -> bool {
        self.0.inference
    }

    pub(crate) fn gradients(&self) -> &Gradients {
        &self.0.gradients
    }

    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand {
            storage: &self.0.storage,
            layout: self.0.layout,
        }
    }

    /// Whether no other handle, view or saved copy can see its content.
    pub(crate) fn is_sole_owner(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && Arc::strong_count(&self.0.storage) == 1
    }

    pub(crate) fn shares_storage(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.storage, &other.0.storage)
    }

    pub(crate) fn expect_dtype(&self, operation: &'static str, dtype: DType) -> Result<()> {
        if self.dtype() == dtype {
            return Ok(());
        }
        Err(Error::DType {
            operation,
            detail: format!(
                "takes {dtype}, but the tensor of shape {:?} is {}",
                self.shape(),
                self.dtype()
            ),
        })
    }

    pub(crate) fn expect_same_device(&self, operation: &'static str, other: &Self) -> Result<()> {
        if self.device() == other.device() {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            operation,
            left: self.device().to_string(),
            right: other.device().to_string(),
        })
    }

    pub(crate) fn expect_dim(&self, operation: &'static str, dim: usize) -> Result<()> {
        if dim < self.shape().len() {
            return Ok(());
        }
        Err(Error::Argument {
            operation,
            detail: format!("dimension {dim} does not exist in shape {:?}", self.shape()),
        })
    }
}

/// Its facts, not its content: that may still be in the making.
impl fmt::Debug for Tensor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Tensor({:?}, {}, {}",
            self.shape(),
            self.dtype(),
            self.device()
        )?;
        if self.requires_grad() {
            out.write_str(", requires_grad")?;
        }
        out.write_str(")")
    }
}
