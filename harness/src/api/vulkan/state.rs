//! Whether calls to Vulkan are intercepted in this process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::wrapper::broken;
use crate::ledger::event::CuResult;
use crate::loader;

/// Whether the program has created an instance.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Records that the program has created an instance, for which the loader has opened the drivers.
///
/// Libraries whose functions are intercepted are never unloaded, so the library through which the
/// loader opened them must also stay loaded. NVIDIA's driver has its functions in a second library,
/// and the two libraries share state. If only one of them were unloaded and loaded again, only that
/// one would look up the state again, and the process would end with an invalid free.
pub(super) fn used() {
    IS_USED.store(true, Ordering::Relaxed);
    loader::keep_loaded_with(c"vk_icdGetInstanceProcAddr");
}

/// Whether the program uses Vulkan and its calls are intercepted.
pub(crate) fn is_intercepted() -> bool {
    IS_USED.load(Ordering::Relaxed) && !broken()
}

/// Whether this is the name of a Vulkan function.
pub(crate) fn is_function(name: &str) -> bool {
    name.starts_with("vk")
}

/// Returns the name of an error, which is a negative `VkResult`.
pub(crate) fn result_name(error: CuResult) -> Option<String> {
    let name = match error.cast_signed() {
        -1 => "VK_ERROR_OUT_OF_HOST_MEMORY",
        -2 => "VK_ERROR_OUT_OF_DEVICE_MEMORY",
        -3 => "VK_ERROR_INITIALIZATION_FAILED",
        -4 => "VK_ERROR_DEVICE_LOST",
        -5 => "VK_ERROR_MEMORY_MAP_FAILED",
        -6 => "VK_ERROR_LAYER_NOT_PRESENT",
        -7 => "VK_ERROR_EXTENSION_NOT_PRESENT",
        -8 => "VK_ERROR_FEATURE_NOT_PRESENT",
        -9 => "VK_ERROR_INCOMPATIBLE_DRIVER",
        -10 => "VK_ERROR_TOO_MANY_OBJECTS",
        -11 => "VK_ERROR_FORMAT_NOT_SUPPORTED",
        -12 => "VK_ERROR_FRAGMENTED_POOL",
        -13 => "VK_ERROR_UNKNOWN",
        -1_000_069_000 => "VK_ERROR_OUT_OF_POOL_MEMORY",
        -1_000_072_003 => "VK_ERROR_INVALID_EXTERNAL_HANDLE",
        -1_000_161_000 => "VK_ERROR_FRAGMENTATION",
        -1_000_257_000 => "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
        other if other < 0 => return Some(format!("VkResult {other}")),
        _ => return None,
    };
    Some(name.to_owned())
}
