//! Softmax and its logarithm along one dimension.

use super::elements::{dense, dense_mut};
use crate::compute::kernels::{Operand, SoftmaxKernels, SoftmaxKind};
use crate::compute::layout::Around;
use crate::embedded::Embedded;
use crate::error::Result;

impl SoftmaxKernels for Embedded {
    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let (source, mut target) = (input.storage.read(), out.storage.write());
        let (source, target) = (
            dense::<f32>(&source, input),
            dense_mut::<f32>(&mut target, out),
        );
        for line in lines(around) {
            // The largest element is subtracted first, so that no exponential overflows.
            let largest = places(around, line)
                .map(|place| source[place])
                .fold(f32::NEG_INFINITY, f32::max);
            let total: f64 = places(around, line)
                .map(|place| f64::from(source[place] - largest).exp())
                .sum();
            for place in places(around, line) {
                let shifted = f64::from(source[place] - largest);
                target[place] = match kind {
                    SoftmaxKind::Softmax => (shifted.exp() / total) as f32,
                    SoftmaxKind::LogSoftmax => (shifted - total.ln()) as f32,
                };
            }
        }
        Ok(())
    }

    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let (gradients, results) = (gradient.storage.read(), result.storage.read());
        let mut target = out.storage.write();
        let (gradients, results): (&[f32], &[f32]) =
            (dense(&gradients, gradient), dense(&results, result));
        let target = dense_mut::<f32>(&mut target, out);
        for line in lines(around) {
            let terms = places(around, line).map(|place| match kind {
                SoftmaxKind::Softmax => f64::from(gradients[place]) * f64::from(results[place]),
                SoftmaxKind::LogSoftmax => f64::from(gradients[place]),
            });
            let total: f64 = terms.sum();
            for place in places(around, line) {
                let (gradient, result) = (f64::from(gradients[place]), f64::from(results[place]));
                target[place] = match kind {
                    SoftmaxKind::Softmax => (gradient - total) * result,
                    SoftmaxKind::LogSoftmax => gradient - result.exp() * total,
                } as f32;
            }
        }
        Ok(())
    }
}

/// Returns the index at which each line along the dimension begins.
fn lines(around: Around) -> impl Iterator<Item = usize> {
    let Around { outer, size, inner } = around;
    (0..outer).flat_map(move |block| (0..inner).map(move |place| block * size * inner + place))
}

fn places(around: Around, first: usize) -> impl Iterator<Item = usize> {
    (0..around.size).map(move |index| first + index * around.inner)
}
