//! Optimisers, which change parameters after a backward pass.

mod adam;
mod sgd;

pub use adam::Adam;
pub use sgd::Sgd;

use crate::array::Array;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The interface of every optimiser.
pub trait Optimizer {
    /// The parameters that the optimiser changes, each once, even if several layers share it.
    fn parameters(&self) -> &[Tensor];

    /// Changes every parameter that has a gradient, in one operation.
    ///
    /// # Errors
    ///
    /// Returns an error if parameters are on different devices or the device is out of memory.
    fn step(&mut self) -> Result<()>;

    /// Drops every gradient, so that its memory is free until the next backward pass.
    fn zero_grad(&self) {
        for parameter in self.parameters() {
            parameter.clear_grad();
        }
    }

    /// Sets every gradient to 0 and keeps its memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the device fails.
    fn zero_grad_in_place(&self) -> Result<()> {
        for parameter in self.parameters() {
            if let Some(gradient) = parameter.gradient_array() {
                gradient.set_to_zero()?;
            }
        }
        Ok(())
    }
}

/// The parameters that have a gradient, each with its gradient and its index in the list.
fn with_gradients<'a>(
    operation: &'static str,
    parameters: &'a [Tensor],
) -> Result<Vec<(usize, &'a Array, Array)>> {
    let mut found = Vec::with_capacity(parameters.len());
    for (place, parameter) in parameters.iter().enumerate() {
        if let Some(gradient) = parameter.gradient_array() {
            let parameter = parameter.array();
            parameters[0]
                .array()
                .expect_same_device(operation, parameter)?;
            // Kernels need contiguous gradients in a storage other than the one that they write.
            let gradient = if gradient.shares_storage(parameter) {
                gradient.copied()?
            } else {
                gradient.packed()?
            };
            found.push((place, parameter, gradient));
        }
    }
    Ok(found)
}

/// Allocates memory for an optimiser's state of one parameter. The first step writes it.
fn state_like(parameter: &Array) -> Result<Array> {
    Array::empty(parameter.device(), *parameter.layout(), parameter.dtype())
}

/// Checks that the parameters are leaves that require gradients. They must also be contiguous,
/// because a step goes over their storage in order. Drops repetitions: a parameter that several
/// layers share is changed once per step, as in PyTorch.
fn checked(operation: &'static str, parameters: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let mut distinct: Vec<Tensor> = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        if !parameter.is_leaf() || !parameter.requires_grad() || !parameter.is_contiguous() {
            return Err(Error::Argument {
                operation,
                detail: format!(
                    "{parameter:?} is not a parameter: it must be a contiguous leaf that requires \
                     gradients"
                ),
            });
        }
        if !distinct.iter().any(|other| other.is(&parameter)) {
            distinct.push(parameter);
        }
    }
    Ok(distinct)
}
