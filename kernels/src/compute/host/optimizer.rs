//! Optimiser steps.

use super::elements::{dense, dense_mut};
use crate::compute::kernels::{AdamParameter, AdamStep, OptimizerKernels, SgdParameter, SgdStep};
use crate::embedded::Embedded;
use crate::error::Result;

impl OptimizerKernels for Embedded {
    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        let _turn = self.turn();
        for parameter in parameters {
            let gradients = parameter.gradient.storage.read();
            let gradients: &[f32] = dense(&gradients, parameter.gradient);
            let mut values = parameter.value.storage.write();
            let values: &mut [f32] = dense_mut(&mut values, parameter.value);
            let decayed = |gradient: f32, value: f32| step.weight_decay.mul_add(value, gradient);
            match parameter.momentum {
                None => {
                    for (value, gradient) in values.iter_mut().zip(gradients) {
                        *value -= step.learning_rate * decayed(*gradient, *value);
                    }
                }
                Some(momentum) => {
                    let mut buffer = momentum.storage.write();
                    let buffer: &mut [f32] = dense_mut(&mut buffer, momentum);
                    for ((value, gradient), momentum) in
                        values.iter_mut().zip(gradients).zip(buffer)
                    {
                        let change = decayed(*gradient, *value);
                        *momentum = if parameter.first {
                            change
                        } else {
                            step.momentum.mul_add(*momentum, change)
                        };
                        *value -= step.learning_rate * *momentum;
                    }
                }
            }
        }
        Ok(())
    }

    fn adam(&self, step: AdamStep, parameters: &[AdamParameter<'_>]) -> Result<()> {
        let _turn = self.turn();
        for parameter in parameters {
            let gradients = parameter.gradient.storage.read();
            let gradients: &[f32] = dense(&gradients, parameter.gradient);
            let mut values = parameter.value.storage.write();
            let values: &mut [f32] = dense_mut(&mut values, parameter.value);
            let mut means = parameter.mean.storage.write();
            let means: &mut [f32] = dense_mut(&mut means, parameter.mean);
            let mut squares = parameter.square.storage.write();
            let squares: &mut [f32] = dense_mut(&mut squares, parameter.square);
            let moments = means.iter_mut().zip(squares);
            for ((value, gradient), (mean, square)) in values.iter_mut().zip(gradients).zip(moments)
            {
                let change = step.weight_decay.mul_add(*value, *gradient);
                let (old_mean, old_square) = if parameter.first {
                    (0.0, 0.0)
                } else {
                    (*mean, *square)
                };
                *mean = (change - old_mean).mul_add(1.0 - step.beta1, old_mean);
                *square = step.beta2 * old_square + (1.0 - step.beta2) * change * change;
                let denominator = square.sqrt() / parameter.square_correction + step.epsilon;
                *value -= parameter.step_size * *mean / denominator;
            }
        }
        Ok(())
    }
}
