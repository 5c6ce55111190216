//! A course in numbered lessons. This file contains the code that several lessons share.

pub mod lesson;

use gpu_leak_kernels::{Device, Error};

/// Returns the device with this name: `embedded`, `cuda` or `cuda:1`.
///
/// # Errors
///
/// Returns an error if this machine has no such device.
pub fn device_named(name: &str) -> Result<Device, Error> {
    let unknown = || Error::Unavailable {
        device: name.to_owned(),
        detail: "unknown device; use `embedded` or `cuda:0`".to_owned(),
    };
    match name {
        "embedded" => Device::embedded(),
        "cuda" => Device::cuda(0),
        _ => {
            let ordinal = name.strip_prefix("cuda:").ok_or_else(unknown)?;
            Device::cuda(ordinal.parse().map_err(|_| unknown())?)
        }
    }
}

/// Returns the value after an option such as `--device` on the command line.
///
/// # Errors
///
/// Returns an error if the option has no value.
pub fn option(name: &str) -> Result<Option<String>, String> {
    let mut arguments = std::env::args().skip(1);
    if arguments.any(|argument| argument == name) {
        let value = arguments.next();
        return value
            .map(Some)
            .ok_or_else(|| format!("{name} needs a value"));
    }
    Ok(None)
}
