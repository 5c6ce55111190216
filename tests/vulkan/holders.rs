//! The holders of leaks. The driver's own memory must not be reported as one of them.

use std::sync::OnceLock;

use ash::vk;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_vulkan_tests::{gpu, run_with};

use super::objects::{command_pool, image, messenger};

/// A queue, which programs keep in addition to the device and the physical device. Drivers store
/// queues inside the device.
static QUEUE: OnceLock<vk::Queue> = OnceLock::new();

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgets_beside_a_queue() {
    // SAFETY: the device has this queue.
    QUEUE.get_or_init(|| unsafe { gpu().device.get_device_queue(0, 0) });
    image::create(gpu());
    command_pool::create(gpu());
    messenger::create(gpu());
    let _ = gpu_leak_vulkan_tests::device(&gpu().instance, gpu().physical);
}

/// A device, its physical device and its queues point to memory of the driver and the loader, which
/// know every object.
#[test]
fn objects_that_only_the_driver_knows_are_held_by_nothing() {
    let variables = [("GPU_LEAK_CHECK_HELD_BY", "600s")];
    let Some(checked) = run_with("holders::forgets_beside_a_queue", &variables) else {
        return;
    };
    let findings = &checked.report().findings;
    assert_eq!(findings.len(), 4, "{}", checked.output());
    let mut holders = findings.iter().filter_map(|it| it.holders.as_ref());
    assert!(holders.all(Vec::is_empty), "{}", checked.output());
}
