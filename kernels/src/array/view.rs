//! Other views of the same storage, and the copy that makes a view contiguous.

use std::ops::Range;
use std::sync::Arc;

use super::Array;
use crate::compute::{Dims, Layout};
use crate::dispatch::kernels_of;
use crate::error::Result;

impl Array {
    /// Another array over the same storage.
    pub(crate) fn view(&self, layout: Layout) -> Self {
        Self::over(Arc::clone(self.storage()), layout, self.dtype())
    }

    /// A view with two dimensions swapped. The caller has checked that they exist.
    pub(crate) fn transposed(&self, first: usize, second: usize) -> Self {
        self.view(self.layout().transposed(first, second))
    }

    /// A view that repeats dimensions of size 1 and adds leading dimensions, without a copy.
    pub(crate) fn broadcast_to(&self, operation: &'static str, shape: Dims) -> Result<Self> {
        Ok(self.view(self.layout().broadcast_to(operation, shape)?))
    }

    /// The same elements in another shape with the same number of elements: a view if this array is
    /// contiguous, otherwise a copy.
    pub(crate) fn reshaped(&self, shape: Dims) -> Result<Self> {
        let dense = self.packed()?;
        Ok(dense.view(dense.layout().reshaped(shape)))
    }

    /// This array if it is contiguous, otherwise a contiguous copy.
    pub(crate) fn packed(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        self.copied()
    }

    /// A contiguous copy.
    pub(crate) fn copied(&self) -> Result<Self> {
        let layout = Layout::dense(self.layout().shape);
        let out = Self::empty(self.device(), layout, self.dtype())?;
        kernels_of(self.device()).copy(self.dtype(), self.operand(), out.operand())?;
        Ok(out)
    }

    /// An array of this shape, with `self` in the given range of a dimension and 0 everywhere else.
    pub(crate) fn padded(&self, shape: Dims, dim: usize, range: Range<usize>) -> Result<Self> {
        let out = Self::zeros(self.dtype(), &shape, self.device())?;
        let place = out.view(out.layout().narrowed(dim, range.start, range.len()));
        kernels_of(self.device()).copy(self.dtype(), self.operand(), place.operand())?;
        Ok(out)
    }
}
