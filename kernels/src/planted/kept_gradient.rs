//! Gradients kept for statistics and never used.

use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "kept_gradient", "each step's gradient is kept as a tensor",
    Caching, "block", ["gradient": 1 of 4096], super::leak::SMALL_SEGMENT
}

static GRADIENTS: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let weight = Tensor::full([32, 32], 0.5, device)?.requires_grad_(true)?;
    let loss = weight.sin()?.sum()?;
    loss.backward()?; // leak: gradient
    GRADIENTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .extend(weight.grad());
    Ok(())
}
