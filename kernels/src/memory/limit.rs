//! Limits on how much an allocator may reserve.

use super::figures::device_memory;
use crate::device::Device;
use crate::error::{Error, Result};

/// Limits the device's allocator to `bytes` of reserved memory; `None` removes the limit. Memory
/// that is already reserved stays.
pub fn set_memory_limit(device: &Device, bytes: Option<u64>) {
    let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    device.allocator().lock().set_limit(bytes);
}

/// Limits the device's allocator to this fraction of the device's memory, like PyTorch's
/// [`set_per_process_memory_fraction`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.set_per_process_memory_fraction.html).
///
/// # Errors
///
/// Returns an error if the fraction is not between 0 and 1, or the memory size cannot be read.
pub fn set_memory_fraction(device: &Device, fraction: f64) -> Result<()> {
    if !(0.0..=1.0).contains(&fraction) {
        return Err(Error::Argument {
            operation: "set_memory_fraction",
            detail: format!("{fraction} is not a fraction from 0 to 1"),
        });
    }
    let total = device_memory(device)?.total;
    set_memory_limit(device, Some((total as f64 * fraction) as u64));
    Ok(())
}
