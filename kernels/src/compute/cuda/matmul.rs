//! Launches of `matmul.cu`, and of cuBLAS for large matrices.
#![expect(unsafe_code, reason = "passes raw addresses to cuBLAS")]

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::driver::DeviceRepr;

use crate::compute::dtype::DType;
use crate::compute::kernels::{Epilogue, MatmulKernels, Operand, TransferKernels};
use crate::compute::layout::Layout;
use crate::compute::storage::Storage;
use crate::cuda::{BlasMatrix, Cuda, Kernel};
use crate::error::{Error, Result};

use super::address::{count, floats};
use super::launch::Grid;

/// Up to this many multiplications, our own kernel is at least as fast as cuBLAS, and avoids the 64
/// MiB that a cuBLAS handle takes.
const SMALL: u64 = 1 << 22;

/// With a longer shared dimension, the few blocks of our own kernel would be slower than cuBLAS.
const SHALLOW: usize = 1 << 12;

/// Mirrors the struct `Matrix` in `matmul.cu`; the layouts must match.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct StridedMatrix {
    start: u64,
    row_stride: u64,
    column_stride: u64,
}

// SAFETY: the struct is `repr(C)`, has only integers, and matches the struct in `matmul.cu`.
unsafe impl DeviceRepr for StridedMatrix {}

impl StridedMatrix {
    fn of(operand: Operand<'_>) -> Self {
        Self {
            start: floats(operand),
            row_stride: operand.layout.strides[0] as u64,
            column_stride: operand.layout.strides[1] as u64,
        }
    }
}

impl MatmulKernels for Cuda {
    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let sizes = [
            out.layout.shape[0],
            out.layout.shape[1],
            lhs.layout.shape[1],
        ];
        if count(out) == 0 {
            return Ok(());
        }
        let multiplications = sizes
            .iter()
            .fold(1_u64, |product, &size| product.saturating_mul(size as u64));
        if sizes[2] == 0 {
            // Every element is an empty sum.
            self.fill(0.0, out)?;
        } else if multiplications <= SMALL && sizes[2] <= SHALLOW {
            return self.small_product(sizes, lhs, rhs, epilogue, out);
        } else {
            self.large_product(sizes, lhs, rhs, out)?;
        }
        if epilogue.bias.is_none() && !epilogue.relu {
            return Ok(());
        }
        let (bias, relu) = (bias_start(epilogue), u32::from(epilogue.relu));
        let (columns, count, to) = (sizes[1] as u64, count(out), floats(out));
        self.launch(
            Kernel::Epilogue,
            Grid::over(count),
            [
                (&bias).into(),
                (&relu).into(),
                (&columns).into(),
                (&count).into(),
                (&to).into(),
            ],
        )
    }
}

impl Cuda {
    fn small_product(
        &self,
        sizes: [usize; 3],
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        const TILE: u32 = 16;
        let [rows, columns, depth] = sizes.map(|size| {
            u32::try_from(size).expect("the dimensions of a small product fit in a `u32`")
        });
        let (a, b, to) = (StridedMatrix::of(lhs), StridedMatrix::of(rhs), floats(out));
        let (bias, relu) = (bias_start(epilogue), u32::from(epilogue.relu));
        let tiles = u64::from(columns.div_ceil(TILE)) * u64::from(rows.div_ceil(TILE));
        let grid = Grid {
            blocks: u32::try_from(tiles).expect("a small product has at most 2^22 tiles"),
            threads: (TILE * TILE, 1),
        };
        self.launch(
            Kernel::Matmul,
            grid,
            [
                (&a).into(),
                (&b).into(),
                (&bias).into(),
                (&relu).into(),
                (&rows).into(),
                (&columns).into(),
                (&depth).into(),
                (&to).into(),
            ],
        )
    }

    /// cuBLAS reads matrices as column-major, so it sees every matrix transposed. It computes the
    /// transposed result, `rhsᵀ · lhsᵀ`, which is the result itself in row-major order.
    fn large_product(
        &self,
        sizes: [usize; 3],
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let mut room = [None, None];
        let [left_room, right_room] = &mut room;
        let left = self.for_blas(lhs, left_room)?;
        let right = self.for_blas(rhs, right_room)?;
        let [rows, columns, depth] = [
            blas_size(sizes[0])?,
            blas_size(sizes[1])?,
            blas_size(sizes[2])?,
        ];
        self.with_blas(|blas| {
            // SAFETY: the operands' layouts lie in their storages, and `for_blas` describes the
            // same elements in column-major order. A copy that it made is dropped after this call,
            // and its memory is reused only by later work in the stream.
            unsafe { blas.product([columns, rows, depth], right, left, floats(out)) }
        })
    }

    /// The matrix itself if one of its strides is 1; otherwise a copy, which `room` owns.
    fn for_blas(
        &self,
        operand: Operand<'_>,
        room: &mut Option<Arc<Storage>>,
    ) -> Result<BlasMatrix> {
        let layout = operand.layout;
        let (rows, columns) = (layout.shape[0], layout.shape[1]);
        let by_rows = columns == 1 || layout.strides[1] == 1;
        let by_columns = rows == 1 || layout.strides[0] == 1;
        if by_rows && (rows == 1 || layout.strides[0] >= columns) {
            let leading = if rows == 1 {
                columns
            } else {
                layout.strides[0]
            };
            return Ok(BlasMatrix {
                address: floats(operand),
                transposed: false,
                leading: blas_size(leading)?,
            });
        }
        if by_columns && (columns == 1 || layout.strides[1] >= rows) {
            let leading = if columns == 1 {
                rows
            } else {
                layout.strides[1]
            };
            return Ok(BlasMatrix {
                address: floats(operand),
                transposed: true,
                leading: blas_size(leading)?,
            });
        }
        let bytes = layout.count() * DType::F32.bytes();
        let copy = room.insert(Arc::new(Storage::new(operand.storage.device(), bytes)?));
        let packed = Operand {
            storage: copy,
            layout: Layout::dense(layout.shape),
        };
        self.copy(DType::F32, operand, packed)?;
        Ok(BlasMatrix {
            address: floats(packed),
            transposed: false,
            leading: blas_size(columns)?,
        })
    }
}

fn bias_start(epilogue: Epilogue<'_>) -> u64 {
    epilogue.bias.map_or(0, floats)
}

fn blas_size(size: usize) -> Result<c_int> {
    c_int::try_from(size).map_err(|_| Error::Argument {
        operation: "matmul",
        detail: format!("a dimension of {size} is more than cuBLAS supports"),
    })
}
