//! Operations on each element or pair of elements.

use crate::autograd::{Saved, record, rules};
use crate::error::Result;

use super::super::kernels::{Binary, Operand, Unary};
use super::super::layout::{Layout, broadcast};
use super::super::{DType, Tensor};

impl Tensor {
    /// Element by element; shapes broadcast.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn add(&self, other: &Self) -> Result<Self> {
        let out = binary("add", Binary::Add, self, other)?;
        record(out, [self, other], |_, _| {
            Ok(rules::Sum {
                shapes: [self.layout().shape, other.layout().shape],
                negate_second: false,
            })
        })
    }

    /// Element by element; shapes broadcast.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn sub(&self, other: &Self) -> Result<Self> {
        let out = binary("sub", Binary::Sub, self, other)?;
        record(out, [self, other], |_, _| {
            Ok(rules::Sum {
                shapes: [self.layout().shape, other.layout().shape],
                negate_second: true,
            })
        })
    }

    /// Element by element; shapes broadcast.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn mul(&self, other: &Self) -> Result<Self> {
        let out = binary("mul", Binary::Mul, self, other)?;
        record(out, [self, other], |_, needs| {
            Ok(rules::Product {
                shapes: [self.layout().shape, other.layout().shape],
                first: needs[1].then(|| Saved::of(self)).transpose()?,
                second: needs[0].then(|| Saved::of(other)).transpose()?,
            })
        })
    }

    /// A number added to each element.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn add_scalar(&self, value: f32) -> Result<Self> {
        let out = unary("add_scalar", Unary::AddScalar(value), self)?;
        record(out, [self], |_, _| Ok(rules::Scale { factor: 1.0 }))
    }

    /// Each element times a number.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn mul_scalar(&self, value: f32) -> Result<Self> {
        let out = unary("mul_scalar", Unary::MulScalar(value), self)?;
        record(out, [self], |_, _| Ok(rules::Scale { factor: value }))
    }

    /// The sine of each element, in radians.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn sin(&self) -> Result<Self> {
        let out = unary("sin", Unary::Sin, self)?;
        record(out, [self], |_, _| {
            Ok(rules::Sin {
                input: Saved::of(self)?,
            })
        })
    }

    /// Each element, or 0 where it is negative.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn relu(&self) -> Result<Self> {
        let out = unary("relu", Unary::Relu, self)?;
        record(out, [self], |out, _| {
            Ok(rules::Relu {
                result: Saved::of(out)?,
            })
        })
    }
}

pub(crate) fn unary(operation: &'static str, op: Unary, input: &Tensor) -> Result<Tensor> {
    input.expect_dtype(operation, DType::F32)?;
    let layout = Layout::dense(input.layout().shape);
    let out = Tensor::empty(input.device(), layout, DType::F32)?;
    out.device()
        .kernels()
        .unary(op, input.operand(), out.operand())?;
    Ok(out)
}

/// The result outside every graph.
pub(crate) fn binary(
    operation: &'static str,
    op: Binary,
    lhs: &Tensor,
    rhs: &Tensor,
) -> Result<Tensor> {
    for operand in [lhs, rhs] {
        operand.expect_dtype(operation, DType::F32)?;
    }
    lhs.expect_same_device(operation, rhs)?;
    let shape = broadcast(operation, &lhs.layout(), &rhs.layout())?;
    let layout = Layout::contiguous(operation, &shape)?;
    let out = Tensor::empty(lhs.device(), layout, DType::F32)?;
    out.device().kernels().binary(
        op,
        Operand {
            storage: lhs.storage(),
            layout: lhs.layout().broadcast_to(operation, shape)?,
        },
        Operand {
            storage: rhs.storage(),
            layout: rhs.layout().broadcast_to(operation, shape)?,
        },
        out.operand(),
    )?;
    Ok(out)
}
