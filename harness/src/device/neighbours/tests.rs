use std::os::unix::fs::symlink;
use std::path::Path;

use super::is_open_elsewhere;

#[test]
fn another_process_with_the_device_open_is_seen_and_this_one_is_not_counted() {
    let directory = tempfile::tempdir().unwrap();
    let device = Path::new("/dev/nvidia-uvm");
    let opens = |process: &str, target: &str| {
        let files = directory.path().join(process).join("fd");
        std::fs::create_dir_all(&files).unwrap();
        symlink(target, files.join("3")).unwrap();
    };
    opens("7", "/dev/nvidia-uvm");
    opens("8", "/dev/null");
    opens("self", "/dev/nvidia-uvm");
    assert!(!is_open_elsewhere(directory.path(), 7, device));
    assert!(is_open_elsewhere(directory.path(), 8, device));
}

#[test]
fn where_there_is_nothing_to_look_through_nobody_is_seen() {
    let missing = Path::new("/there/is/no/such/directory");
    assert!(!is_open_elsewhere(missing, 1, Path::new("/dev/null")));
}
