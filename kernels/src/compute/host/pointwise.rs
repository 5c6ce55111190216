//! Operations on each element or pair of elements.

use super::elements::{dense_mut, numbers, numbers_mut};
use crate::compute::kernels::{Binary, Operand, PointwiseKernels, Unary};
use crate::embedded::Embedded;
use crate::error::Result;
use crate::parallel::share_out;

impl PointwiseKernels for Embedded {
    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        match op {
            Unary::Sin => map(input, out, f32::sin),
            // This is a comparison instead of `max`, so that NaN stays NaN, as in PyTorch.
            Unary::Relu => map(input, out, |x| if x < 0.0 { 0.0 } else { x }),
            Unary::AddScalar(value) => map(input, out, |x| x + value),
            Unary::MulScalar(value) => map(input, out, |x| x * value),
        }
        Ok(())
    }

    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        match op {
            Binary::Add => zip(lhs, rhs, out, |a, b| a + b),
            Binary::Sub => zip(lhs, rhs, out, |a, b| a - b),
            Binary::Mul => zip(lhs, rhs, out, |a, b| a * b),
            Binary::ReluBackward => zip(
                lhs,
                rhs,
                out,
                |g, result| if result <= 0.0 { 0.0 } else { g },
            ),
            Binary::SinBackward => zip(lhs, rhs, out, |g, x| g * x.cos()),
        }
        Ok(())
    }

    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        let (source, mut sum) = (other.storage.read(), target.storage.write());
        let count = target.layout.count();
        let (source, sum) = (numbers::<f32>(&source), numbers_mut::<f32>(&mut sum));
        let places = target.layout.offsets(0).zip(other.layout.offsets(0));
        for (to, from) in places.take(count) {
            sum[to] += source[from];
        }
        Ok(())
    }
}

fn map(input: Operand<'_>, out: Operand<'_>, function: impl Fn(f32) -> f32 + Sync) {
    let (source, mut target) = (input.storage.read(), out.storage.write());
    let source: &[f32] = numbers(&source);
    let contiguous = input.layout.is_contiguous();
    share_out(
        dense_mut(&mut target, out),
        1,
        |start, piece: &mut [f32]| {
            if contiguous {
                let from = &source[input.layout.offset + start..];
                for (to, from) in piece.iter_mut().zip(from) {
                    *to = function(*from);
                }
            } else {
                for (to, from) in piece.iter_mut().zip(input.layout.offsets(start)) {
                    *to = function(source[from]);
                }
            }
        },
    );
}

fn zip(
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    out: Operand<'_>,
    function: impl Fn(f32, f32) -> f32 + Sync,
) {
    let (first, second, mut target) = (lhs.storage.read(), rhs.storage.read(), out.storage.write());
    let (first, second): (&[f32], &[f32]) = (numbers(&first), numbers(&second));
    let contiguous = lhs.layout.is_contiguous() && rhs.layout.is_contiguous();
    share_out(
        dense_mut(&mut target, out),
        1,
        |start, piece: &mut [f32]| {
            if contiguous {
                let pairs = first[lhs.layout.offset + start..]
                    .iter()
                    .zip(&second[rhs.layout.offset + start..]);
                for (to, (a, b)) in piece.iter_mut().zip(pairs) {
                    *to = function(*a, *b);
                }
            } else {
                let pairs = lhs.layout.offsets(start).zip(rhs.layout.offsets(start));
                for (to, (a, b)) in piece.iter_mut().zip(pairs) {
                    *to = function(first[a], second[b]);
                }
            }
        },
    );
}
