//! Detects whether other processes use a GPU of this machine, as far as permissions allow.
//!
//! A process that uses CUDA keeps `/dev/nvidia-uvm` open. Processes of other users and of other
//! containers cannot be seen. No NVIDIA library is used, because loading one would cost more than
//! the check.

use std::fs;
use std::path::Path;

/// Whether another process is seen to use CUDA. Searches `/proc`, which takes some milliseconds on
/// a busy machine.
pub(crate) fn use_cuda() -> bool {
    is_open_elsewhere(
        Path::new("/proc"),
        std::process::id(),
        Path::new("/dev/nvidia-uvm"),
    )
}

/// Whether a process in `processes` other than `own` has `device` open.
fn is_open_elsewhere(processes: &Path, own: u32, device: &Path) -> bool {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let mut others = entries(processes).filter(|process| {
        let name = process.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        number.is_some_and(|number| number != own)
    });
    others.any(|process| {
        entries(&process.path().join("fd"))
            .any(|file| fs::read_link(file.path()).is_ok_and(|target| target == device))
    })
}

#[cfg(all(test, unix))]
mod tests;
