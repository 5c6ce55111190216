// rustc judges these first, because `test` may be another macro and is asked before us.

use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
#[test]
async fn no_runtime() {}

#[gpu_leak_check]
#[test]
fn arguments(_device: usize) {}

#[gpu_leak_check]
#[test]
fn generic<T: Default>() {}
