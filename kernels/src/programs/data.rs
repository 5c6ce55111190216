//! Batches from the host.

use crate::data::{DataLoader, TensorDataset};
use crate::error::Result;
use crate::memory;
use crate::tensor::HostTensor;

use super::program::Steps;

pub(super) fn data_loader_loop(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let samples = HostTensor::randn([10_000, 100])?;
    let labels = HostTensor::randint(0, 10, [10_000])?;
    let loader = DataLoader::new(TensorDataset::new([samples, labels])?, 32)?.shuffle(0);
    for epoch in 0..2 {
        for (number, batch) in loader.epoch(epoch).enumerate() {
            let [samples, labels] = batch?;
            let on_device = (samples.to(device)?, labels.to(device)?);
            if epoch == 0 && [0, 312].contains(&number) {
                steps.read(format!("batch{number}"));
            }
            drop(on_device);
            memory::empty_cache(device)?;
        }
    }
    steps.read("end");
    Ok(())
}
