// rustc reports these errors first, because it expands `test` before our attribute.

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
