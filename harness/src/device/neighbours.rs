//! Finds the other processes that use a GPU of this machine, as far as permissions allow.
//!
//! A process that uses CUDA keeps `/dev/nvidia-uvm` open. Processes of other users and in other
//! containers cannot be seen. No NVIDIA library is used for this, because loading one would cost
//! more than the whole check.

use std::fs;
use std::path::Path;

/// Returns the other processes that visibly use CUDA, in the form `4242 (python3)`. This searches
/// `/proc`, which takes some milliseconds on a busy machine.
pub(crate) fn that_use_cuda() -> Vec<String> {
    let [processes, device] = ["/proc", "/dev/nvidia-uvm"].map(Path::new);
    that_have_open(processes, std::process::id(), device)
}

/// Returns the processes listed in `processes`, except `own`, that have `device` open, sorted by
/// id.
fn that_have_open(processes: &Path, own: u32, device: &Path) -> Vec<String> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries(processes).filter_map(|it| it.file_name().to_str()?.parse().ok());
    let mut others: Vec<u32> = numbers.filter(|number| *number != own).collect();
    others.sort_unstable();
    let named = others.into_iter().filter_map(|number| {
        let process = processes.join(number.to_string());
        let mut files = entries(&process.join("fd"));
        files.find(|it| fs::read_link(it.path()).is_ok_and(|target| target == device))?;
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        Some(match name.trim_end() {
            "" => number.to_string(),
            name => format!("{number} ({name})"),
        })
    });
    named.collect()
}

#[cfg(all(test, unix))]
mod tests;
