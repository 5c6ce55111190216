//! Stochastic gradient descent.

use super::{Optimizer, checked, state_like, with_gradients};
use crate::array::Array;
use crate::compute::{SgdParameter, SgdStep};
use crate::dispatch::kernels_of;
use crate::error::Result;
use crate::tensor::Tensor;

/// Gradient descent with momentum and weight decay, in PyTorch's formulation
/// (<https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html>).
///
/// With momentum, it keeps one array per parameter, allocated at the first step.
#[derive(Debug)]
pub struct Sgd {
    parameters: Vec<Tensor>,
    learning_rate: f32,
    momentum: f32,
    weight_decay: f32,
    momenta: Vec<Option<Momentum>>,
}

#[derive(Clone, Debug)]
struct Momentum {
    content: Array,
    /// Whether a step has written the content, which is uninitialised before.
    written: bool,
}

impl Sgd {
    /// Creates an optimiser without momentum or weight decay.
    ///
    /// # Errors
    ///
    /// Returns an error if a parameter is not a contiguous leaf that requires gradients.
    pub fn new(parameters: Vec<Tensor>, learning_rate: f32) -> Result<Self> {
        let parameters = checked("Sgd::new", parameters)?;
        Ok(Self {
            momenta: vec![None; parameters.len()],
            parameters,
            learning_rate,
            momentum: 0.0,
            weight_decay: 0.0,
        })
    }

    /// Sets the fraction of the previous change that is added to the next one.
    #[must_use]
    pub fn momentum(mut self, momentum: f32) -> Self {
        self.momentum = momentum;
        self
    }

    /// Sets the fraction of each parameter that is added to its gradient.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f32) -> Self {
        self.weight_decay = weight_decay;
        self
    }
}

impl Optimizer for Sgd {
    fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    fn step(&mut self) -> Result<()> {
        let found = with_gradients("Sgd::step", &self.parameters)?;
        let Some((_, lead, _)) = found.first() else {
            return Ok(());
        };
        let uses_momentum = self.momentum != 0.0;
        if uses_momentum {
            for (place, parameter, _) in &found {
                let momentum = &mut self.momenta[*place];
                if momentum.is_none() {
                    *momentum = Some(Momentum {
                        content: state_like(parameter)?,
                        written: false,
                    });
                }
            }
        }
        let parameters: Vec<_> = found
            .iter()
            .map(|(place, parameter, gradient)| {
                let momentum = self.momenta[*place].as_ref().filter(|_| uses_momentum);
                SgdParameter {
                    value: parameter.operand(),
                    gradient: gradient.operand(),
                    momentum: momentum.map(|momentum| momentum.content.operand()),
                    first: momentum.is_some_and(|momentum| !momentum.written),
                }
            })
            .collect();
        let step = SgdStep {
            learning_rate: self.learning_rate,
            momentum: self.momentum,
            weight_decay: self.weight_decay,
        };
        kernels_of(lead.device()).sgd(step, &parameters)?;
        for (place, parameter, _) in &found {
            parameter.storage().bump_version();
            if let Some(momentum) = &mut self.momenta[*place] {
                momentum.written |= uses_momentum;
            }
        }
        Ok(())
    }
}
