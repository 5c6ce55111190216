//! Launches of `reduce.cu`.

use crate::compute::dtype::DType;
use crate::compute::kernels::{Operand, ReduceKernels};
use crate::compute::layout::Around;
use crate::compute::storage::Storage;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, floats};
use super::launch::Grid;

/// A line of up to this many elements is summed by one block.
const LINE: u64 = 1 << 16;

/// The maximum number of parts into which a long line is divided. More parts would not use the GPU
/// any better.
const MAX_PARTS: u64 = 1024;

impl ReduceKernels for Cuda {
    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        let from = floats(input);
        let [outer, size, inner] = [around.outer, around.size, around.inner].map(|n| n as u64);
        if count(out) == 0 {
            return Ok(());
        }
        if inner == 1 && outer == 1 && size > LINE {
            let (parts, count) = self.sum_parts(input)?;
            return self.sum_lines(parts.address(), [1, count], scale, out);
        }
        if inner == 1 {
            return self.sum_lines(from, [outer, size], scale, out);
        }
        let to = floats(out);
        let mut grid = Grid::lines(outer * inner.div_ceil(32), 32);
        grid.threads.1 = 32;
        self.launch(
            Kernel::SumColumns,
            grid,
            [
                (&from).into(),
                (&outer).into(),
                (&size).into(),
                (&inner).into(),
                (&scale).into(),
                (&to).into(),
            ],
        )
    }
}

impl Cuda {
    fn sum_lines(
        &self,
        from: u64,
        [outer, size]: [u64; 2],
        scale: f32,
        out: Operand<'_>,
    ) -> Result<()> {
        let to = floats(out);
        self.launch(
            Kernel::SumLines,
            Grid::lines(outer, threads(size)),
            [
                (&from).into(),
                (&outer).into(),
                (&size).into(),
                (&scale).into(),
                (&to).into(),
            ],
        )
    }

    /// Sums equal parts of a long line. The returned storage may be dropped as soon as the kernel
    /// that reads it has been launched, because the stream keeps the order of its work.
    fn sum_parts(&self, input: Operand<'_>) -> Result<(Storage, u64)> {
        let (from, count) = (floats(input), count(input));
        let blocks = count.div_ceil(LINE).clamp(1, MAX_PARTS);
        let parts = Storage::new(input.storage.device(), blocks as usize * DType::F32.bytes())?;
        let to = parts.address();
        self.launch(
            Kernel::SumParts,
            Grid::lines(blocks, 1024),
            [(&from).into(), (&count).into(), (&to).into()],
        )?;
        Ok((parts, blocks))
    }
}

/// The number of threads for a line: as many whole warps as have work, but at most 1024 threads.
pub(super) fn threads(size: u64) -> u32 {
    u32::try_from(size.clamp(1, 1024).next_multiple_of(32)).expect("the bound is small")
}
