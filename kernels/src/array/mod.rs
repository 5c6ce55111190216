//! Arrays: numbers of one type and shape on one device, and the operations on them.
//!
//! An [`Array`] knows nothing of gradients. A [`Tensor`](crate::Tensor) is an array with its place
//! in a graph, and the rules of graphs compute with arrays. Every operation allocates exactly the
//! storages that PyTorch's eager operation leaves behind.

mod create;
mod in_place;
mod loss;
mod matmul;
mod pointwise;
mod reduce;
mod softmax;
mod transfer;
mod view;

use std::sync::Arc;

pub(crate) use loss::CrossEntropy;

use crate::compute::{DType, Layout, Operand, Storage};
use crate::device::Device;
use crate::error::{Error, Result};

/// Numbers on a device. Clones and views share the storage.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    storage: Arc<Storage>,
    layout: Layout,
    dtype: DType,
}

impl Array {
    pub(crate) fn over(storage: Arc<Storage>, layout: Layout, dtype: DType) -> Self {
        Self {
            storage,
            layout,
            dtype,
        }
    }

    /// Creates a contiguous array whose contents are yet to be written.
    pub(crate) fn empty(device: &Device, layout: Layout, dtype: DType) -> Result<Self> {
        let storage = Storage::new(device, layout.count() * dtype.bytes())?;
        Ok(Self::over(Arc::new(storage), layout, dtype))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn numel(&self) -> usize {
        self.layout.count()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn device(&self) -> &Device {
        self.storage.device()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    pub(crate) fn operand(&self) -> Operand<'_> {
        Operand {
            storage: &self.storage,
            layout: self.layout,
        }
    }

    /// Whether nothing else shares this array's storage: no other tensor, no view, and no array
    /// saved for the backward pass.
    pub(crate) fn is_sole_owner(&self) -> bool {
        Arc::strong_count(&self.storage) == 1
    }

    pub(crate) fn shares_storage(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage)
    }

    pub(crate) fn expect_dtype(&self, operation: &'static str, dtype: DType) -> Result<()> {
        if self.dtype == dtype {
            return Ok(());
        }
        Err(Error::DType {
            operation,
            detail: format!(
                "takes {dtype}, but the tensor of shape {:?} is {}",
                self.shape(),
                self.dtype
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
