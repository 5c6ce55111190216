//! Prints the two most important figures of an allocator.

use super::release::Held;
use crate::device::Device;

/// Prints the allocated and reserved memory of the device's allocator, in MiB.
#[expect(clippy::print_stdout, reason = "printing is the function's purpose")]
pub fn print_memory(device: &Device) {
    const MIB: f64 = 1024.0 * 1024.0;
    let Held {
        allocated,
        reserved,
    } = Held::now(device);
    println!("memory allocated: {} MiB", allocated as f64 / MIB);
    println!("memory reserved: {} MiB", reserved as f64 / MIB);
}
