//! Losses.

use std::sync::Arc;

use super::elements::{dense, dense_mut, numbers_mut};
use crate::compute::kernels::{LossKernels, Operand};
use crate::compute::storage::Storage;
use crate::embedded::Embedded;
use crate::error::Result;

impl LossKernels for Embedded {
    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()> {
        let _turn = self.turn();
        let (inputs, targets) = (input.storage.read(), target.storage.read());
        let (inputs, targets): (&[f32], &[f32]) = (dense(&inputs, input), dense(&targets, target));
        let squares = inputs.iter().zip(targets).map(|(input, target)| {
            let difference = f64::from(*input) - f64::from(*target);
            difference * difference
        });
        let mean = squares.sum::<f64>() / inputs.len() as f64;
        numbers_mut::<f32>(&mut out.write())[0] = mean as f32;
        Ok(())
    }

    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let (inputs, targets) = (input.storage.read(), target.storage.read());
        let (inputs, targets): (&[f32], &[f32]) = (dense(&inputs, input), dense(&targets, target));
        let factor =
            2.0 * dense::<f32>(&gradient.storage.read(), gradient)[0] / inputs.len() as f32;
        let mut out_buffer = out.storage.write();
        let pairs = inputs.iter().zip(targets);
        for (to, (input, target)) in dense_mut::<f32>(&mut out_buffer, out).iter_mut().zip(pairs) {
            *to = factor * (input - target);
        }
        Ok(())
    }

    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let (rows, chosen) = (log_probabilities.storage.read(), classes.storage.read());
        let (rows, chosen) = (
            dense::<f32>(&rows, log_probabilities),
            dense::<i64>(&chosen, classes),
        );
        let width = log_probabilities.layout.shape[1];
        let terms = chosen.iter().enumerate().map(|(row, class)| {
            existing(*class, width).map_or(f64::NAN, |class| -f64::from(rows[row * width + class]))
        });
        let mean = terms.sum::<f64>() / chosen.len() as f64;
        dense_mut::<f32>(&mut out.storage.write(), out)[0] = mean as f32;
        dense_mut::<f32>(&mut weight.storage.write(), weight)[0] = chosen.len() as f32;
        Ok(())
    }

    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        let (rows, chosen) = (log_probabilities.storage.read(), classes.storage.read());
        let (rows, chosen) = (
            dense::<f32>(&rows, log_probabilities),
            dense::<i64>(&chosen, classes),
        );
        let width = log_probabilities.layout.shape[1];
        let factor = dense::<f32>(&gradient.storage.read(), gradient)[0]
            / dense::<f32>(&weight.storage.read(), weight)[0];
        let mut target = out.storage.write();
        let target = dense_mut::<f32>(&mut target, out);
        for (place, (to, value)) in target.iter_mut().zip(rows).enumerate() {
            let wanted = existing(chosen[place / width], width).map_or(f32::NAN, |class| {
                f32::from(u8::from(class == place % width))
            });
            *to = factor * (value.exp() - wanted);
        }
        Ok(())
    }
}

/// The class as an index of a row of `width` scores, if the row has it.
fn existing(class: i64, width: usize) -> Option<usize> {
    usize::try_from(class).ok().filter(|class| *class < width)
}
