//! A loader that keeps the last batch of every epoch on the device.

use std::sync::{Mutex, PoisonError};

use crate::data::{DataLoader, TensorDataset};
use crate::device::Device;
use crate::error::Result;
use crate::tensor::{HostTensor, Tensor};

super::leak::planted! {
    "batch_kept_by_loader", "a loader that lives until the program ends holds the last batch of every epoch",
    Caching, "block", ["samples": 1 of 12_800, "labels": 1 of 512], super::leak::SMALL_SEGMENT
}

/// The last batch of each epoch, kept so that training can resume there after a failed step.
static ENDS: Mutex<Vec<(Tensor, Tensor)>> = Mutex::new(Vec::new());

fn run(device: &Device) -> Result<()> {
    let samples = HostTensor::rand([64, 100])?;
    let labels = HostTensor::randint(0, 10, [64])?;
    let loader = DataLoader::new(TensorDataset::new([samples, labels])?, 32)?;
    let mut last = None;
    for batch in loader.epoch(0) {
        let [samples, labels] = batch?;
        let samples = samples.to(device)?; // leak: samples
        let labels = labels.to(device)?; // leak: labels
        last = Some((samples, labels));
    }
    let mut ends = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
    ends.extend(last);
    Ok(())
}
