#[gpu_leak_check::gpu_leak_check(crate = "gpu_leak_check")]
#[test]
fn quoted() {}

#[gpu_leak_check::gpu_leak_check(crate = nowhere::gpu_leak_check, tolerance = 1)]
#[test]
fn unresolved() {}
