#![gpu_leak_check::gpu_leak_check]

#[test]
fn frees_everything() {}
