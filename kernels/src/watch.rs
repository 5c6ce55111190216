//! Reports this library's allocations and frees to the harness.
//!
//! The caching allocator is the layer `allocator:gpu-leak-kernels`. Its blocks are reported one by
//! one, and the [probe](crate::probe) claims the segments that contain them. The memory of embedded
//! devices is the layer `allocator:embedded`. It lies below the caching allocator, as the CUDA
//! driver does on a GPU.

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;

/// The name of the caching allocator in the harness.
pub(crate) const NAME: &str = "gpu-leak-kernels";

/// The library's own source files, which a report never names as the line that allocated memory.
/// `programs` and `planted` are not among them, because they are users of the library.
const OWN_SOURCES: &[&str] = &[
    "kernels/src/allocator/",
    "kernels/src/array/",
    "kernels/src/autograd/",
    "kernels/src/capturing.rs",
    "kernels/src/compute/",
    "kernels/src/cuda/",
    "kernels/src/data/",
    "kernels/src/device/",
    "kernels/src/dispatch.rs",
    "kernels/src/embedded/",
    "kernels/src/graph/",
    "kernels/src/memory/",
    "kernels/src/nn/",
    "kernels/src/optim/",
    "kernels/src/parallel.rs",
    "kernels/src/probe.rs",
    "kernels/src/random.rs",
    "kernels/src/stream/",
    "kernels/src/tensor/",
    "kernels/src/training.rs",
    "kernels/src/watch.rs",
];

static BLOCKS: Source = Source::new(NAME, OWN_SOURCES);
static EMBEDDED: Source = Source::new("embedded", OWN_SOURCES);

/// Reports the allocations and frees of one allocator.
#[derive(Debug)]
pub(crate) struct Reporter {
    source: &'static Source,
    place: Place,
}

impl Reporter {
    /// Reports the blocks of the caching allocator of a device.
    pub(crate) fn blocks(device: &str) -> Self {
        Self {
            source: &BLOCKS,
            place: place(device),
        }
    }

    /// Reports the segments of an embedded device.
    pub(crate) fn segments(device: &str) -> Self {
        Self {
            source: &EMBEDDED,
            place: place(device),
        }
    }

    /// Must be called after `bytes` at `address` were handed out.
    #[inline]
    pub(crate) fn allocated(&self, address: u64, bytes: usize) {
        self.source.allocated(self.place, address, bytes as u64);
    }

    /// Must be called before `address` can be handed out again.
    #[inline]
    pub(crate) fn freed(&self, address: u64) {
        self.source.freed(address);
    }
}

/// The harness's place for a device's name, such as `cuda:0` or `embedded:0`.
pub(crate) fn place(device: &str) -> Place {
    match device.strip_prefix("cuda:").map(str::parse) {
        Some(Ok(ordinal)) => Place::cuda(ordinal),
        _ => Place::named(device),
    }
}
