//! Whether other processes use a GPU of this machine, as far as this one may look.
//!
//! A process that uses CUDA holds `/dev/nvidia-uvm` open. Those of other users and of other
//! containers cannot be seen. No library of NVIDIA's is asked: loading one would cost more than
//! the check.

use std::fs;
use std::path::Path;

/// Whether another process is seen to use CUDA. Looks through `/proc`: some milliseconds on a busy
/// machine.
pub(crate) fn use_cuda() -> bool {
    is_open_elsewhere(
        Path::new("/proc"),
        std::process::id(),
        Path::new("/dev/nvidia-uvm"),
    )
}

/// Whether a process below `processes` other than `own` holds `device` open.
fn is_open_elsewhere(processes: &Path, own: u32, device: &Path) -> bool {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
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
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::is_open_elsewhere;

    #[test]
    fn another_process_with_the_device_open_is_seen_and_this_one_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let device = Path::new("/dev/nvidia-uvm");
        let opens = |process: &str, target: &str| {
            let files = folder.path().join(process).join("fd");
            std::fs::create_dir_all(&files).unwrap();
            symlink(target, files.join("3")).unwrap();
        };
        opens("7", "/dev/nvidia-uvm");
        opens("8", "/dev/null");
        opens("self", "/dev/nvidia-uvm");
        assert!(!is_open_elsewhere(folder.path(), 7, device));
        assert!(is_open_elsewhere(folder.path(), 8, device));
    }

    #[test]
    fn where_there_is_nothing_to_look_through_nobody_is_seen() {
        let missing = Path::new("/there/is/no/such/folder");
        assert!(!is_open_elsewhere(missing, 1, Path::new("/dev/null")));
    }
}
