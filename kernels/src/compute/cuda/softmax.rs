//! Launches of `softmax.cu`.

use crate::compute::kernels::{Operand, SoftmaxKernels, SoftmaxKind};
use crate::compute::layout::Around;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::floats;
use super::launch::Grid;
use super::reduce::threads;

fn code(kind: SoftmaxKind) -> u32 {
    match kind {
        SoftmaxKind::Softmax => 0,
        SoftmaxKind::LogSoftmax => 1,
    }
}

/// The number of lines, their length, and the distance between the elements of a line.
fn sizes(around: Around) -> [u64; 3] {
    [around.outer * around.inner, around.size, around.inner].map(|n| n as u64)
}

impl SoftmaxKernels for Cuda {
    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let (kind, [lines, size, inner]) = (code(kind), sizes(around));
        let (from, to) = (floats(input), floats(out));
        self.launch(
            Kernel::Softmax,
            Grid::lines(lines, threads(size)),
            [
                (&kind).into(),
                (&from).into(),
                (&lines).into(),
                (&size).into(),
                (&inner).into(),
                (&to).into(),
            ],
        )
    }

    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let (kind, [lines, size, inner]) = (code(kind), sizes(around));
        let (gradient, result, to) = (floats(gradient), floats(result), floats(out));
        self.launch(
            Kernel::SoftmaxBackward,
            Grid::lines(lines, threads(size)),
            [
                (&kind).into(),
                (&gradient).into(),
                (&result).into(),
                (&lines).into(),
                (&size).into(),
                (&inner).into(),
                (&to).into(),
            ],
        )
    }
}
