//! A tensor that is meant to stay, in a large segment that was allocated for other tensors.

use std::sync::{Mutex, PoisonError};

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

super::leak::planted! {
    "pinned_segment",
    "a tensor that may stay is allocated next to large tensors and keeps their whole segment",
    Caching, "block", ["pin": 1 of 2_097_152], super::leak::LARGE_SEGMENT
}

static STATISTICS: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let activations = Tensor::zeros([2048, 1024], device)?;
    let statistics = Tensor::zeros([512, 1024], device)?; // leak: pin
    drop(activations);
    STATISTICS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(statistics);
    Ok(())
}
