//! Modules that run one after the other.

use std::fmt;

use crate::error::Result;
use crate::tensor::Tensor;

use super::module::Module;

/// Passes each module's result to the next one.
#[derive(Default)]
pub struct Sequential {
    parts: Vec<Box<dyn Module + Send + Sync>>,
}

impl Sequential {
    /// Creates a sequence without modules, whose result is its input.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a module at the end.
    #[must_use]
    pub fn then(mut self, part: impl Module + Send + Sync + 'static) -> Self {
        self.parts.push(Box::new(part));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut current = input.clone();
        for part in &self.parts {
            current = part.forward(&current)?;
        }
        Ok(current)
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.parts
            .iter()
            .flat_map(|part| part.parameters())
            .collect()
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sequential({} parts)", self.parts.len())
    }
}
