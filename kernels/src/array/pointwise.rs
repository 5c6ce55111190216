//! Operations on each element or pair of elements.

use super::Array;
use crate::compute::{Binary, DType, Layout, Operand, Unary, broadcast};
use crate::dispatch::kernels_of;
use crate::error::Result;

impl Array {
    /// Applies a function to each element.
    pub(crate) fn unary(&self, operation: &'static str, op: Unary) -> Result<Self> {
        self.expect_dtype(operation, DType::F32)?;
        let layout = Layout::dense(self.layout().shape);
        let out = Self::empty(self.device(), layout, DType::F32)?;
        kernels_of(out.device()).unary(op, self.operand(), out.operand())?;
        Ok(out)
    }

    /// Applies a function to each pair of elements. Shapes broadcast.
    pub(crate) fn binary(&self, operation: &'static str, op: Binary, other: &Self) -> Result<Self> {
        for operand in [self, other] {
            operand.expect_dtype(operation, DType::F32)?;
        }
        self.expect_same_device(operation, other)?;
        let shape = broadcast(operation, self.layout(), other.layout())?;
        let layout = Layout::contiguous(operation, &shape)?;
        let out = Self::empty(self.device(), layout, DType::F32)?;
        kernels_of(out.device()).binary(
            op,
            Operand {
                storage: self.storage(),
                layout: self.layout().broadcast_to(operation, shape)?,
            },
            Operand {
                storage: other.storage(),
                layout: other.layout().broadcast_to(operation, shape)?,
            },
            out.operand(),
        )?;
        Ok(out)
    }
}
