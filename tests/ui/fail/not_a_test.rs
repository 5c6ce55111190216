use gpu_leak_check::gpu_leak_check;

#[gpu_leak_check]
async fn no_runtime() {}

#[gpu_leak_check]
fn arguments(_device: usize) {}

#[gpu_leak_check]
fn generic<T: Default>() {}

#[gpu_leak_check]
const fn constant() {}

#[gpu_leak_check]
unsafe fn not_safe() {}

#[gpu_leak_check]
extern "C" fn foreign() {}

#[gpu_leak_check]
fn main() {
    // The callers of rejected functions cause no further errors.
    constant();
    arguments(1);
}
