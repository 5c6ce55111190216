//! Matrix products.
#![expect(unsafe_code, reason = "matrixmultiply takes pointers and strides")]

use super::elements::{dense, dense_mut, numbers};
use crate::compute::kernels::{Epilogue, MatmulKernels, Operand};
use crate::embedded::Embedded;
use crate::error::Result;
use crate::parallel::share_out;

impl MatmulKernels for Embedded {
    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let [columns, depth] = [out.layout.shape[1], lhs.layout.shape[1]];
        if out.layout.count() == 0 {
            return Ok(());
        }
        let (first, second, mut target) =
            (lhs.storage.read(), rhs.storage.read(), out.storage.write());
        let bias = epilogue.bias.map(|bias| (bias, bias.storage.read()));
        let bias: Option<&[f32]> = bias.as_ref().map(|(bias, buffer)| dense(buffer, *bias));
        let (first, second): (&[f32], &[f32]) = (numbers(&first), numbers(&second));
        check_reach(lhs, first.len());
        check_reach(rhs, second.len());

        share_out(dense_mut(&mut target, out), columns, |start, piece| {
            let (row, rows) = (start / columns, piece.len() / columns);
            match bias {
                Some(bias) => piece
                    .chunks_mut(columns)
                    .for_each(|row| row.copy_from_slice(bias)),
                None => piece.fill(0.0),
            }
            if depth != 0 {
                let from = lhs.layout.offset + row * lhs.layout.strides[0];
                // SAFETY: `check_reach` has verified that the last element that the shape and
                // strides describe lies inside each operand's slice, so all elements do. `piece` is
                // borrowed exclusively, and is exactly as long as its rows of the output.
                unsafe {
                    matrixmultiply::sgemm(
                        rows,
                        depth,
                        columns,
                        1.0,
                        first.as_ptr().add(from),
                        lhs.layout.strides[0].cast_signed(),
                        lhs.layout.strides[1].cast_signed(),
                        second.as_ptr().add(rhs.layout.offset),
                        rhs.layout.strides[0].cast_signed(),
                        rhs.layout.strides[1].cast_signed(),
                        1.0,
                        piece.as_mut_ptr(),
                        columns.cast_signed(),
                        1,
                    );
                }
            }
            if epilogue.relu {
                for value in piece {
                    if *value < 0.0 {
                        *value = 0.0;
                    }
                }
            }
        });
        Ok(())
    }
}

fn check_reach(operand: Operand<'_>, length: usize) {
    let layout = &operand.layout;
    if layout.count() != 0 {
        let steps = layout.shape.iter().zip(layout.strides.iter());
        let last = layout.offset
            + steps
                .map(|(size, stride)| (size - 1) * stride)
                .sum::<usize>();
        assert!(last < length, "{layout:?} reaches past its storage");
    }
}
