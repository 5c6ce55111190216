//! Launches of `loss.cu`.

use std::sync::Arc;

use crate::compute::dtype::DType;
use crate::compute::kernels::{LossKernels, Operand};
use crate::compute::storage::Storage;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, floats, start};
use super::launch::Grid;
use super::reduce::threads;

/// A loss over up to this many elements is computed by one block.
const ONE_BLOCK: u64 = 1 << 14;

/// The number of partial sums of a larger loss, one per block.
const PARTS: u32 = 1024;

impl LossKernels for Cuda {
    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()> {
        let (input_start, target_start, to) = (floats(input), floats(target), out.address());
        let count = count(input);
        let whole = count <= ONE_BLOCK;
        let mean = 1.0 / count as f32;
        let (grid, scale) = if whole {
            (Grid::lines(1, threads(count)), mean)
        } else {
            (Grid::lines(PARTS.into(), 256), 1.0)
        };
        self.launch(
            Kernel::MseParts,
            grid,
            [
                (&input_start).into(),
                (&target_start).into(),
                (&count).into(),
                (&scale).into(),
                (&to).into(),
            ],
        )?;
        if whole {
            return Ok(());
        }
        self.launch(
            Kernel::MseTotal,
            Grid::lines(1, PARTS),
            [(&to).into(), (&PARTS).into(), (&mean).into()],
        )
    }

    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let (gradient, input, target) = (floats(gradient), floats(input), floats(target));
        let (to, count) = (floats(out), count(out));
        self.launch(
            Kernel::MseBackward,
            Grid::over(count),
            [
                (&gradient).into(),
                (&input).into(),
                (&target).into(),
                (&count).into(),
                (&to).into(),
            ],
        )
    }

    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()> {
        let [rows, width] = rows_and_width(log_probabilities);
        let (from, chosen) = (floats(log_probabilities), start(classes, DType::I64));
        let (to, weight) = (floats(out), floats(weight));
        self.launch(
            Kernel::Nll,
            Grid::lines(1, threads(rows)),
            [
                (&from).into(),
                (&chosen).into(),
                (&rows).into(),
                (&width).into(),
                (&to).into(),
                (&weight).into(),
            ],
        )
    }

    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let [_, width] = rows_and_width(log_probabilities);
        let (gradient, from) = (floats(gradient), floats(log_probabilities));
        let (chosen, weight) = (start(classes, DType::I64), floats(weight));
        let (to, count) = (floats(out), count(out));
        self.launch(
            Kernel::CrossEntropyBackward,
            Grid::over(count),
            [
                (&gradient).into(),
                (&from).into(),
                (&chosen).into(),
                (&weight).into(),
                (&width).into(),
                (&count).into(),
                (&to).into(),
            ],
        )
    }
}

fn rows_and_width(matrix: Operand<'_>) -> [u64; 2] {
    [matrix.layout.shape[0], matrix.layout.shape[1]].map(|n| n as u64)
}
