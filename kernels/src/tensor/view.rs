//! Other views of the same storage, and the copy that makes a view contiguous.

use std::ops::Range;

use super::Tensor;
use super::record::record;
use crate::autograd::rules;
use crate::compute::Layout;
use crate::error::{Error, Result};

impl Tensor {
    /// A view with two dimensions swapped.
    ///
    /// # Errors
    ///
    /// Returns an error if a dimension does not exist.
    pub fn transpose(&self, first: usize, second: usize) -> Result<Self> {
        self.array().expect_dim("transpose", first)?;
        self.array().expect_dim("transpose", second)?;
        let out = self.array().transposed(first, second);
        record(out, [self], |_, _| {
            Ok(rules::TransposeBackward { first, second })
        })
    }

    /// A view of a range of one dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist or the range exceeds it.
    pub fn narrow(&self, dim: usize, range: Range<usize>) -> Result<Self> {
        self.array().expect_dim("narrow", dim)?;
        if range.start > range.end || range.end > self.shape()[dim] {
            return Err(Error::Argument {
                operation: "narrow",
                detail: format!(
                    "range {range:?} is invalid for dimension {dim} of shape {:?}",
                    self.shape()
                ),
            });
        }
        let layout = self.array().layout();
        let out = self
            .array()
            .view(layout.narrowed(dim, range.start, range.len()));
        record(out, [self], |_, _| {
            Ok(rules::NarrowBackward {
                shape: self.array().layout().shape,
                dim,
                range,
            })
        })
    }

    /// A view of a range of the first dimension.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor is a scalar or the range exceeds the dimension.
    pub fn rows(&self, range: Range<usize>) -> Result<Self> {
        self.narrow(0, range)
    }

    /// Returns the same elements in a different shape: a view if the tensor is contiguous,
    /// otherwise a copy.
    ///
    /// # Errors
    ///
    /// Returns an error if the new shape has a different number of elements.
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
        let out = self.array().reshaped(shape)?;
        record(out, [self], |_, _| {
            Ok(rules::ReshapeBackward {
                shape: self.array().layout().shape,
            })
        })
    }

    /// A view that repeats dimensions of size 1 and adds leading dimensions, without a copy.
    ///
    /// # Errors
    ///
    /// Returns an error if another dimension would have to change.
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self> {
        let shape = Layout::contiguous("broadcast_to", shape.as_ref())?.shape;
        let out = self.array().broadcast_to("broadcast_to", shape)?;
        record(out, [self], |_, _| {
            Ok(rules::BroadcastBackward {
                shape: self.array().layout().shape,
            })
        })
    }

    /// This tensor if it is contiguous, otherwise a contiguous copy.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory.
    pub fn contiguous(&self) -> Result<Self> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        record(self.array().packed()?, [self], |_, _| {
            Ok(rules::ReshapeBackward {
                shape: self.array().layout().shape,
            })
        })
    }
}
