//! Operations on each element or pair of elements.

use super::Tensor;
use super::record::record;
use crate::autograd::{Saved, rules};
use crate::compute::{Binary, Unary};
use crate::error::Result;

impl Tensor {
    /// Adds two tensors element by element. Shapes broadcast.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn add(&self, other: &Self) -> Result<Self> {
        let out = self.array().binary("add", Binary::Add, other.array())?;
        record(out, [self, other], |_, _| {
            Ok(rules::AddBackward {
                shapes: [self.array().layout().shape, other.array().layout().shape],
                negate_second: false,
            })
        })
    }

    /// Subtracts another tensor element by element. Shapes broadcast.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        let out = self.array().binary("sub", Binary::Sub, other.array())?;
        record(out, [self, other], |_, _| {
            Ok(rules::AddBackward {
                shapes: [self.array().layout().shape, other.array().layout().shape],
                negate_second: true,
            })
        })
    }

    /// Multiplies two tensors element by element. Shapes broadcast.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        let out = self.array().binary("mul", Binary::Mul, other.array())?;
        record(out, [self, other], |_, needs| {
            Ok(rules::MulBackward {
                shapes: [self.array().layout().shape, other.array().layout().shape],
                first: needs[1].then(|| self.saved()).transpose()?,
                second: needs[0].then(|| other.saved()).transpose()?,
            })
        })
    }

    /// Adds a number to each element.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn add_scalar(&self, value: f32) -> Result<Self> {
        let out = self.array().unary("add_scalar", Unary::AddScalar(value))?;
        record(out, [self], |_, _| Ok(rules::ScaleBackward { factor: 1.0 }))
    }

    /// Multiplies each element by a number.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn mul_scalar(&self, value: f32) -> Result<Self> {
        let out = self.array().unary("mul_scalar", Unary::MulScalar(value))?;
        record(out, [self], |_, _| {
            Ok(rules::ScaleBackward { factor: value })
        })
    }

    /// The sine of each element, in radians.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn sin(&self) -> Result<Self> {
        let out = self.array().unary("sin", Unary::Sin)?;
        record(out, [self], |_, _| {
            Ok(rules::SinBackward {
                input: self.saved()?,
            })
        })
    }

    /// Replaces negative elements by 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn relu(&self) -> Result<Self> {
        let out = self.array().unary("relu", Unary::Relu)?;
        record(out, [self], |out, _| {
            Ok(rules::ReluBackward {
                result: Saved::of(out),
            })
        })
    }
}
