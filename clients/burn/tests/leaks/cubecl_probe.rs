//! A probe for the memory pools of cubecl's CUDA runtime, which burn's `Cuda` backend uses.
//!
//! It may be copied into other projects and does not depend on this one. It relies on these
//! properties of cubecl:
//!
//! - A thread of cubecl's own, one for each device, does all the work and makes all driver calls.
//!   If it were started inside a test, that test would own whatever it allocates for the rest of
//!   the process. So the probe starts it before the first test begins.
//! - Each thread that computes has its own stream with its own pools, and the client reads and
//!   empties the pools of the calling thread. The probe is called on a different thread from the
//!   test's, so all threads must share one stream.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use cubecl::Runtime;
use cubecl::client::ComputeClient;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use cubecl::cuda::{CudaDevice, CudaRuntime};
use cubecl::future;
use gpu_leak_check::Place;
use gpu_leak_check::probe::{Probe, Segment};

/// The pools of the first device.
struct CubeCl;

static PROBE: CubeCl = CubeCl;
gpu_leak_check::probe!(&PROBE);

/// A client for the first device; none without a driver.
fn client() -> Option<&'static ComputeClient<CudaRuntime>> {
    static CLIENT: OnceLock<Option<ComputeClient<CudaRuntime>>> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        if !Path::new("/dev/nvidiactl").exists() {
            // cubecl would panic.
            return None;
        }
        share_one_stream();
        Some(CudaRuntime::client(&CudaDevice::new(0)))
    });
    client.as_ref()
}

/// Makes all threads share one stream, and so one set of pools.
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

impl Probe for CubeCl {
    fn name(&self) -> &'static str {
        "cubecl"
    }

    fn places(&self) -> Vec<Place> {
        client().map(|_| Place::cuda(0)).into_iter().collect()
    }

    fn allocated(&self, _: Place) -> u64 {
        let usage = client().and_then(|client| client.memory_usage().ok());
        usage.map_or(0, |usage| usage.bytes_in_use)
    }

    fn reserved(&self, _: Place) -> u64 {
        let usage = client().and_then(|client| client.memory_usage().ok());
        usage.map_or(0, |usage| usage.bytes_reserved)
    }

    /// cubecl does not report the addresses of its pages. The check recognises them by the
    /// functions that allocated them.
    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {
        if let Some(client) = client() {
            client.memory_cleanup();
            // This only requests a clean-up. If something cannot be freed, the figures will show
            // it.
            let _ = future::block_on(client.sync());
        }
    }
}
