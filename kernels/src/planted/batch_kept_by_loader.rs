//! A loader that keeps its last batch on the device until the next one, which never comes.

use std::sync::{Mutex, PoisonError};

use crate::data::{DataLoader, TensorDataset};
use crate::device::Device;
use crate::error::Result;
use crate::tensor::{HostTensor, Tensor};

super::planted! {
    "batch_kept_by_loader", "a loader that lives as long as the program holds its last batch",
    Caching, "block", ["samples": 1 of 12_800, "labels": 1 of 512], super::SMALL_SEGMENT
}

/// What was last given out; kept to tell it again after a failed step.
static CURRENT: Mutex<Option<(Tensor, Tensor)>> = Mutex::new(None);

fn run(device: &Device) -> Result<()> {
    let samples = HostTensor::rand([64, 100])?;
    let labels = HostTensor::randint(0, 10, [64])?;
    let loader = DataLoader::new(TensorDataset::new([samples, labels])?, 32)?;
    for batch in loader.epoch(0) {
        let [samples, labels] = batch?;
        let samples = samples.to(device)?; // leak: samples
        let labels = labels.to(device)?; // leak: labels
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some((samples, labels));
    }
    Ok(())
}
