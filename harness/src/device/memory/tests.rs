use std::os::unix::fs::symlink;
use std::path::Path;

use super::that_have_open;

#[test]
fn other_processes_with_the_device_open_are_named_and_this_one_is_not() {
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
    opens("10", "/dev/nvidia-uvm");
    std::fs::write(directory.path().join("10/comm"), "python3\n").unwrap();
    let that_have_open = |own| that_have_open(directory.path(), own, device);
    assert_eq!(that_have_open(7), ["10 (python3)"]);
    assert_eq!(that_have_open(8), ["7", "10 (python3)"]);
}

#[test]
fn without_a_directory_of_processes_no_process_is_seen() {
    let missing = Path::new("/there/is/no/such/directory");
    let seen = that_have_open(missing, 1, Path::new("/dev/null"));
    assert_eq!(seen, [""; 0]);
}
