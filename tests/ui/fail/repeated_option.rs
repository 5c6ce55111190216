use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check(tolerance = 1, confirm = false, tolerance = 2)]
#[test]
fn option() {}

#[gpu_leak_check]
#[gpu_leak_check(tolerance = 1)]
#[test]
fn attribute() {}
