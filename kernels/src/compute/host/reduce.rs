//! Sums.

use super::elements::{dense, dense_mut};
use crate::compute::kernels::{Operand, ReduceKernels};
use crate::compute::layout::Around;
use crate::embedded::Embedded;
use crate::error::Result;
use crate::parallel::share_out;

impl ReduceKernels for Embedded {
    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        let (source, mut target) = (input.storage.read(), out.storage.write());
        let source: &[f32] = dense(&source, input);
        let Around { size, inner, .. } = around;
        share_out(dense_mut(&mut target, out), 1, |start, piece| {
            for (to, place) in piece.iter_mut().zip(start..) {
                let first = place / inner * size * inner + place % inner;
                let line = source.get(first..).unwrap_or_default();
                let terms = line.iter().step_by(inner).take(size);
                let sum: f64 = terms.map(|value| f64::from(*value)).sum();
                *to = (sum * f64::from(scale)) as f32;
            }
        });
        Ok(())
    }
}
