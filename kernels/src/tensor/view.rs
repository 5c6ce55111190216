//! Other views of the same storage, and the copy that makes a view contiguous.

use std::ops::Range;
use std::sync::Arc;

use crate::autograd::{record, rules};
use crate::error::{Error, Result};

use super::Tensor;
use super::layout::{Dims, Layout};

impl Tensor {
    /// A tensor over the same storage, outside every graph.
    pub(crate) fn view(&self, layout: Layout) -> Self {
        Self::over(Arc::clone(self.storage()), layout, self.dtype())
    }

    /// Two dimensions swapped; a view.
    ///
    /// # Errors
    ///
    /// When a dimension does not exist.
    pub fn transpose(&self, first: usize, second: usize) -> Result<Self> {
        self.expect_dim("transpose", first)?;
        self.expect_dim("transpose", second)?;
        let out = self.view(self.layout().transposed(first, second));
        record(out, [self], |_, _| Ok(rules::Transpose { first, second }))
    }

    /// A range of one dimension; a view.
    ///
    /// # Errors
    ///
    /// When the dimension does not exist or the range passes its end.
    pub fn narrow(&self, dim: usize, range: Range<usize>) -> Result<Self> {
        self.expect_dim("narrow", dim)?;
        if range.start > range.end || range.end > self.shape()[dim] {
            return Err(Error::Argument {
                operation: "narrow",
                detail: format!(
                    "range {range:?} does not lie in dimension {dim} of shape {:?}",
                    self.shape()
                ),
            });
        }
        let out = self.view(self.layout().narrowed(dim, range.start, range.len()));
        record(out, [self], |_, _| {
            Ok(rules::Narrow {
                shape: self.layout().shape,
                dim,
                range,
            })
        })
    }

    /// A range of the first dimension; a view.
    ///
    /// # Errors
    ///
    /// When it is a scalar or the range passes the end.
    pub fn rows(&self, range: Range<usize>) -> Result<Self> {
        self.narrow(0, range)
    }

    /// The same elements in another shape: a view of a contiguous tensor, else a copy.
    ///
    /// # Errors
    ///
    /// When the new shape has another number of elements.
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        let shape = Layout::contiguous("reshape", shape.as_ref())?.shape;
        if shape.iter().product::<usize>() != self.numel() {
            return Err(Error::Shape {
                operation: "reshape",
                detail: format!(
                    "shapes {:?} and {shape:?} differ in their number of elements",
                    self.shape()
                ),
            });
        }
        let dense = self.packed()?;
        let out = dense.view(dense.layout().reshaped(shape));
        record(out, [self], |_, _| {
            Ok(rules::Reshape {
                shape: self.layout().shape,
            })
        })
    }

    /// Dimensions of size 1, and new leading ones, repeated without a copy; a view.
    ///
    /// # Errors
    ///
    /// When another dimension would have to change.
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        let shape = Layout::contiguous("broadcast_to", shape.as_ref())?.shape;
        let out = self.view(self.layout().broadcast_to("broadcast_to", shape)?);
        record(out, [self], |_, _| {
            Ok(rules::Broadcast {
                shape: self.layout().shape,
            })
        })
    }

    /// This tensor if it is contiguous, else a copy that is.
    ///
    /// # Errors
    ///
    /// When the device has no room for the copy.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        record(self.packed()?, [self], |_, _| {
            Ok(rules::Reshape {
                shape: self.layout().shape,
            })
        })
    }

    /// As [`Self::contiguous`], outside every graph.
    pub(crate) fn packed(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.view(self.layout()));
        }
        self.copied()
    }

    /// A contiguous copy, outside every graph.
    pub(crate) fn copied(&self) -> Result<Self> {
        let out = Self::empty(
            self.device(),
            Layout::dense(self.layout().shape),
            self.dtype(),
        )?;
        self.device()
            .kernels()
            .copy(self.dtype(), self.operand(), out.operand())?;
        Ok(out)
    }

    /// A tensor of a shape that is 0 but for one range of a dimension, which is this one.
    pub(crate) fn padded(&self, shape: Dims, dim: usize, range: Range<usize>) -> Result<Self> {
        let out = Self::zeros(&*shape, self.device())?;
        let place = out.view(out.layout().narrowed(dim, range.start, range.len()));
        self.device()
            .kernels()
            .copy(self.dtype(), self.operand(), place.operand())?;
        Ok(out)
    }
}
