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
