//! The errors that break a context: after a call has returned one, every later call in the process
//! returns it too.

use super::event::CuResult;

/// The errors after which, according to CUDA 13.0's `cuda.h`, the process or the context is
/// unusable.
const STICKY: [(CuResult, &str); 13] = [
    (226, "CUDA_ERROR_CONTAINED"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (710, "CUDA_ERROR_ASSERT"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
];

/// Returns the name of a sticky error, or `None` for any other.
pub fn sticky_error(error: CuResult) -> Option<&'static str> {
    let found = STICKY.iter().find(|(code, _)| *code == error);
    found.map(|(_, name)| *name)
}
