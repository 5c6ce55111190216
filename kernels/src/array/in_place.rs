//! Changes to an array's own storage.
//!
//! They increase the storage's version, so that a graph detects changes to saved tensors.

use super::Array;
use crate::compute::{DType, Operand};
use crate::dispatch::kernels_of;
use crate::error::{Error, Result};

impl Array {
    /// Adds another array, which broadcasts to this one's shape.
    pub(crate) fn add_assign(&self, other: &Self) -> Result<()> {
        let operation = "add_";
        for operand in [self, other] {
            operand.expect_dtype(operation, DType::F32)?;
        }
        self.expect_same_device(operation, other)?;
        self.expect_distinct_elements(operation)?;
        let layout = other
            .layout()
            .broadcast_to(operation, self.layout().shape)?;
        // A kernel's output must not share its storage with an input.
        let copy = if self.shares_storage(other) {
            Some(other.view(layout).copied()?)
        } else {
            None
        };
        let addend = copy.as_ref().map_or(
            Operand {
                storage: other.storage(),
                layout,
            },
            Self::operand,
        );
        kernels_of(self.device()).add_assign(self.operand(), addend)?;
        self.storage().bump_version();
        Ok(())
    }

    /// Copies the elements of another array of the same shape and type, which may be a view.
    pub(crate) fn copy_from(&self, other: &Self) -> Result<()> {
        let operation = "copy_";
        self.expect_dtype(operation, other.dtype())?;
        self.expect_same_device(operation, other)?;
        self.expect_distinct_elements(operation)?;
        if self.shape() != other.shape() {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "a tensor of shape {:?} cannot take the elements of a tensor of shape {:?}",
                    self.shape(),
                    other.shape()
                ),
            });
        }
        // A kernel's output must not share its storage with an input.
        let copy = self.shares_storage(other).then(|| other.copied());
        let source = copy.transpose()?;
        kernels_of(self.device()).copy(
            self.dtype(),
            source.as_ref().unwrap_or(other).operand(),
            self.operand(),
        )?;
        self.storage().bump_version();
        Ok(())
    }

    pub(crate) fn set_to_zero(&self) -> Result<()> {
        self.expect_distinct_elements("zero_")?;
        if self.numel() * self.dtype().bytes() != self.storage().bytes() {
            return Err(Error::Argument {
                operation: "zero_",
                detail: format!(
                    "the tensor of shape {:?} is a view that does not cover its storage exactly; \
                     call zero_ on the tensor that owns the storage",
                    self.shape()
                ),
            });
        }
        kernels_of(self.device()).zero(self.storage())?;
        self.storage().bump_version();
        Ok(())
    }

    /// Checks that no two elements of this array are the same number in its storage. A device
    /// writes elements in any order, so the result would depend on the order.
    fn expect_distinct_elements(&self, operation: &'static str) -> Result<()> {
        let layout = self.layout();
        let mut dims = layout.shape.iter().zip(layout.strides.iter());
        if dims.any(|(&size, &stride)| size > 1 && stride == 0) {
            return Err(Error::Argument {
                operation,
                detail: format!(
                    "the tensor of shape {:?} repeats its elements, so a change of one would change \
                     others; call contiguous first, or change the tensor that was broadcast",
                    self.shape()
                ),
            });
        }
        Ok(())
    }
}
