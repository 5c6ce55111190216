//! Changes to a tensor's own storage.
//!
//! They count up the storage's version, so that a graph that saved the old content notices.

use crate::autograd::is_recording;
use crate::error::{Error, Result};

use super::super::kernels::Operand;
use super::super::{DType, Tensor};

impl Tensor {
    /// Adds another tensor, which broadcasts to this one's shape.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or a graph is being recorded through this tensor.
    pub fn add_(&self, other: &Self) -> Result<()> {
        let operation = "add_";
        for operand in [self, other] {
            operand.expect_dtype(operation, DType::F32)?;
        }
        self.expect_same_device(operation, other)?;
        self.expect_writable(operation, other.requires_grad())?;
        let layout = other
            .layout()
            .broadcast_to(operation, self.layout().shape)?;
        // A device reads one storage while it writes another.
        let apart = if self.shares_storage(other) {
            Some(other.view(layout).copied()?)
        } else {
            None
        };
        let addend = apart.as_ref().map_or(
            Operand {
                storage: other.storage(),
                layout,
            },
            Self::operand,
        );
        self.device().kernels().add_assign(self.operand(), addend)?;
        self.storage().bump_version();
        Ok(())
    }

    /// Every element becomes that of another tensor of the same shape and type, which may be a view.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or a graph is being recorded through this tensor.
    pub fn copy_(&self, other: &Self) -> Result<()> {
        let operation = "copy_";
        self.expect_dtype(operation, other.dtype())?;
        self.expect_same_device(operation, other)?;
        self.expect_writable(operation, other.requires_grad())?;
        if self.shape() != other.shape() {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "a tensor of shape {:?} does not take the elements of one of shape {:?}",
                    self.shape(),
                    other.shape()
                ),
            });
        }
        // A device reads one storage while it writes another.
        let apart = self.shares_storage(other).then(|| other.copied());
        let source = apart.transpose()?;
        self.device().kernels().copy(
            self.dtype(),
            source.as_ref().unwrap_or(other).operand(),
            self.operand(),
        )?;
        self.storage().bump_version();
        Ok(())
    }

    /// Every element becomes 0.
    ///
    /// # Errors
    ///
    /// When it is a view, or a graph is being recorded through this tensor.
    pub fn zero_(&self) -> Result<()> {
        let operation = "zero_";
        self.expect_writable(operation, false)?;
        if self.numel() * self.dtype().bytes() != self.storage_bytes() {
            return Err(Error::Argument {
                operation,
                detail: format!(
                    "the tensor of shape {:?} is a part of a larger storage",
                    self.shape()
                ),
            });
        }
        self.device().kernels().zero(self.storage())?;
        self.storage().bump_version();
        Ok(())
    }

    fn expect_writable(&self, operation: &'static str, other_requires_grad: bool) -> Result<()> {
        if is_recording() && (self.requires_grad() || other_requires_grad) {
            return Err(Error::Gradient {
                detail: format!(
                    "{operation} would change a tensor of shape {:?} in a recorded graph; \
                     call it inside no_grad",
                    self.shape()
                ),
            });
        }
        Ok(())
    }
}
