//! Losses kept as tensors, where `item` would have returned a number.

use std::sync::{Mutex, PoisonError};

use crate::autograd::no_grad;
use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "loss_history", "each step's loss is kept as a tensor, with the storage behind its scalar",
    Caching, "block", ["loss": 4 of 2560], super::leak::SMALL_SEGMENT
}

static HISTORY: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let prediction = Tensor::full([64, 10], 0.1, device)?;
    let target = Tensor::zeros([64, 10], device)?;
    for _ in 0..4 {
        let loss = no_grad(|| prediction.mse_loss(&target))?; // leak: loss
        HISTORY
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(loss);
    }
    Ok(())
}
