//! A probe for the memory pools of cubecl, through which burn allocates.
//!
//! cubecl keeps pages of many megabytes and hands out parts of them. With this probe,
//! gpu-leak-check knows how many bytes are in use, and a forgotten tensor fails its test. Add this
//! line next to the tests:
//!
//! ```no_run
//! # #[cfg(feature = "wgpu")] gpu_leak_check::probe!(&gpu_leak_cubecl::WGPU); // or CUDA; each
//! needs the feature of that name
//! # fn main() {}
//! ```
//!
//! This crate relies on the following properties of cubecl, and therefore has the same version as
//! cubecl:
//!
//! - For each device, cubecl has its own thread, which does all the work and makes all driver
//!   calls. If this thread were started inside a test, that test would own whatever the thread
//!   allocates for the rest of its life. So the probe starts the thread before the first test
//!   begins.
//! - Each thread that computes has its own stream with its own pools, and the client reads and
//!   empties only the pools of the calling thread. The probe is not called on the test's thread, so
//!   all threads must share one stream.

use std::fmt;
use std::sync::{Arc, OnceLock};

use cubecl::client::ComputeClient;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig as _};
use cubecl::{MemoryUsage, Runtime, future};
use gpu_leak_check::Place;
use gpu_leak_check::probe::{Probe, Segment};

/// The pools of the first CUDA device.
#[cfg(feature = "cuda")]
pub static CUDA: Pools<cubecl::cuda::CudaRuntime> = Pools::new(|| {
    // Without a driver, cubecl would panic.
    let has_driver = std::path::Path::new("/dev/nvidiactl").exists();
    has_driver.then(|| (Place::cuda(0), cubecl::cuda::CudaDevice::new(0)))
});

/// The pools of wgpu's default device, if wgpu uses Vulkan.
#[cfg(feature = "wgpu")]
pub static WGPU: Pools<cubecl::wgpu::WgpuRuntime> = Pools::new(|| {
    use cubecl::wgpu::{AutoGraphicsApi, GraphicsApi as _, Vulkan, WgpuDevice, WgpuRuntime};

    const OF_ANY_TYPE: u16 = 4;
    let backend = AutoGraphicsApi::backend();
    // Without a device, cubecl would panic.
    let has_device = backend == Vulkan::backend()
        && !WgpuRuntime::enumerate_devices(OF_ANY_TYPE, &backend).is_empty();
    has_device.then(|| (Place::named("vulkan:0"), WgpuDevice::DefaultDevice))
});

/// The pools of a device.
pub struct Pools<R: Runtime> {
    device: fn() -> Option<(Place, R::Device)>,
    client: OnceLock<Option<(Place, ComputeClient<R>)>>,
}

impl<R: Runtime> Pools<R> {
    /// Creates a probe of the pools of a device. `device` returns the device and its place in
    /// reports, or `None` if there is nothing to read.
    pub const fn new(device: fn() -> Option<(Place, R::Device)>) -> Self {
        Self {
            device,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Option<&(Place, ComputeClient<R>)> {
        let client = self.client.get_or_init(|| {
            let (place, device) = (self.device)()?;
            share_one_stream();
            Some((place, R::client(&device)))
        });
        client.as_ref()
    }

    fn usage(&self) -> Option<MemoryUsage> {
        let (_, client) = self.client()?;
        client.memory_usage().ok()
    }
}

impl<R: Runtime> fmt::Debug for Pools<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pools").finish_non_exhaustive()
    }
}

/// Makes all threads share one stream, and therefore one set of pools.
fn share_one_stream() {
    let mut slot = CubeClRuntimeConfig::storage().lock();
    let config = slot.get_or_insert_with(|| {
        let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
        config.streaming.max_streams = 1;
        Arc::new(config)
    });
    assert_eq!(
        config.streaming.max_streams, 1,
        "cubecl was used before the first checked test: write `[streaming]` and `max_streams = 1` \
         into cubecl.toml"
    );
}

impl<R: Runtime> Probe for Pools<R> {
    fn name(&self) -> &'static str {
        "cubecl"
    }

    fn places(&self) -> Vec<Place> {
        self.client().map(|(place, _)| *place).into_iter().collect()
    }

    fn allocated(&self, _: Place) -> u64 {
        self.usage().map_or(0, |usage| usage.bytes_in_use)
    }

    fn reserved(&self, _: Place) -> u64 {
        self.usage().map_or(0, |usage| usage.bytes_reserved)
    }

    /// Returns nothing, because cubecl does not report the addresses of its pages. The check
    /// recognises the pages by the functions that allocated them.
    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {
        if let Some((_, client)) = self.client() {
            client.memory_cleanup();
            // `memory_cleanup` only requests a clean-up, and this waits for it. An error can be
            // ignored, because the figures show what could not be freed.
            let _ = future::block_on(client.sync());
        }
    }
}
