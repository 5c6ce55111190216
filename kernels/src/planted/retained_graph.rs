//! A graph kept for a second pass that never comes.

use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "retained_graph", "a loss is kept, and its graph keeps everything that it saved",
    Caching, "block",
    ["weight": 1 of 4096, "hidden": 1 of 4096, "loss": 1 of 512, "gradient": 1 of 4096],
    super::leak::SMALL_SEGMENT
}

static LOSSES: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    // The graph holds its leaf, and the leaf holds its gradient.
    let weight = Tensor::full([32, 32], 0.5, device)?; // leak: weight
    let weight = weight.requires_grad_(true)?;
    let hidden = weight.sin()?; // leak: hidden
    let loss = hidden.mul(&hidden)?.sum()?; // leak: loss
    loss.backward_retaining()?; // leak: gradient
    LOSSES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(loss);
    Ok(())
}
