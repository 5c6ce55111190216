//! The Adam optimiser.

use super::{Optimizer, checked, state_like, with_gradients};
use crate::array::Array;
use crate::compute::{AdamParameter, AdamStep};
use crate::dispatch::kernels_of;
use crate::error::Result;
use crate::tensor::Tensor;

/// Adam (Kingma and Ba, <https://arxiv.org/abs/1412.6980>), in PyTorch's formulation
/// (<https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html>).
///
/// It keeps two arrays per parameter, which are allocated at the first step. The host counts the
/// steps.
#[derive(Debug)]
pub struct Adam {
    parameters: Vec<Tensor>,
    learning_rate: f32,
    betas: (f32, f32),
    epsilon: f32,
    weight_decay: f32,
    moments: Vec<Option<Moments>>,
}

#[derive(Debug)]
struct Moments {
    mean: Array,
    square: Array,
    steps: i32,
}

impl Adam {
    /// Creates an optimiser with PyTorch's defaults: betas of 0.9 and 0.999, an epsilon of 1e-8,
    /// and no weight decay.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the parameters is not a contiguous leaf that requires gradients.
    pub fn new(parameters: Vec<Tensor>, learning_rate: f32) -> Result<Self> {
        let parameters = checked("Adam::new", parameters)?;
        Ok(Self {
            moments: parameters.iter().map(|_| None).collect(),
            parameters,
            learning_rate,
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 0.0,
        })
    }

    /// Sets the decay rates of the running means of the gradients and of their squares.
    #[must_use]
    pub fn betas(mut self, mean: f32, square: f32) -> Self {
        self.betas = (mean, square);
        self
    }

    /// Sets the number that is added to the denominator, so that it is never 0.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f32) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// Sets the fraction of each parameter that is added to its gradient.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f32) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

impl Optimizer for Adam {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn step(&mut self) -> Result<()> {
        let found = with_gradients("Adam::step", &self.parameters)?;
        let Some((_, lead, _)) = found.first() else {
            return Ok(());
        };
        for (place, parameter, _) in &found {
            if self.moments[*place].is_none() {
                self.moments[*place] = Some(Moments {
                    mean: state_like(parameter)?,
                    square: state_like(parameter)?,
                    steps: 0,
                });
            }
        }
        let mut parameters = Vec::with_capacity(found.len());
        for (place, parameter, gradient) in &found {
            let Some(moments) = &self.moments[*place] else {
                continue;
            };
            // This is computed in `f64`, because the rounding of `f32` is too coarse for 1 − beta2.
            let correction = |beta: f32| 1.0 - f64::from(beta).powi(moments.steps + 1);
            parameters.push(AdamParameter {
                value: parameter.operand(),
                gradient: gradient.operand(),
                mean: moments.mean.operand(),
                square: moments.square.operand(),
                step_size: (f64::from(self.learning_rate) / correction(self.betas.0)) as f32,
                square_correction: correction(self.betas.1).sqrt() as f32,
                first: moments.steps == 0,
            });
        }
        let step = AdamStep {
            beta1: self.betas.0,
            beta2: self.betas.1,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
        };
        kernels_of(lead.device()).adam(step, &parameters)?;
        for (place, parameter, _) in &found {
            parameter.storage().bump_version();
            if let Some(moments) = &mut self.moments[*place] {
                moments.steps += 1;
            }
        }
        Ok(())
    }
}
