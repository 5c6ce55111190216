//! Launches of `pointwise.cu`.

use crate::compute::kernels::{Binary, Operand, PointwiseKernels, Unary};
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, floats};
use super::launch::Grid;
use super::strided::Strided;

/// The operation's number in the kernels' `switch` statements, and its constant.
fn unary_code(op: Unary) -> (u32, f32) {
    match op {
        Unary::Sin => (0, 0.0),
        Unary::Relu => (1, 0.0),
        Unary::AddScalar(value) => (2, value),
        Unary::MulScalar(value) => (3, value),
    }
}

fn binary_code(op: Binary) -> u32 {
    match op {
        Binary::Add => 0,
        Binary::Sub => 1,
        Binary::Mul => 2,
        Binary::ReluBackward => 3,
        Binary::SinBackward => 4,
    }
}

impl PointwiseKernels for Cuda {
    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()> {
        let (op, value) = unary_code(op);
        let (from, to, count) = (floats(input), floats(out), count(out));
        let grid = Grid::over(count);
        if input.layout.is_contiguous() {
            return self.launch(
                Kernel::Unary,
                grid,
                [
                    (&op).into(),
                    (&value).into(),
                    (&from).into(),
                    (&to).into(),
                    (&count).into(),
                ],
            );
        }
        let layout = Strided::of(&input.layout, &out.layout);
        self.launch(
            Kernel::UnaryStrided,
            grid,
            [
                (&op).into(),
                (&value).into(),
                (&from).into(),
                (&layout).into(),
                (&to).into(),
                (&count).into(),
            ],
        )
    }

    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let op = binary_code(op);
        let (first, second, to, count) = (floats(lhs), floats(rhs), floats(out), count(out));
        let grid = Grid::over(count);
        if lhs.layout.is_contiguous() && rhs.layout.is_contiguous() {
            return self.launch(
                Kernel::Binary,
                grid,
                [
                    (&op).into(),
                    (&first).into(),
                    (&second).into(),
                    (&to).into(),
                    (&count).into(),
                ],
            );
        }
        let layout = Strided::of(&lhs.layout, &rhs.layout);
        self.launch(
            Kernel::BinaryStrided,
            grid,
            [
                (&op).into(),
                (&first).into(),
                (&second).into(),
                (&layout).into(),
                (&to).into(),
                (&count).into(),
            ],
        )
    }

    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()> {
        let layout = Strided::of(&target.layout, &other.layout);
        let (to, from, count) = (floats(target), floats(other), count(target));
        self.launch(
            Kernel::AddAssign,
            Grid::over(count),
            [
                (&to).into(),
                (&from).into(),
                (&layout).into(),
                (&count).into(),
            ],
        )
    }
}
