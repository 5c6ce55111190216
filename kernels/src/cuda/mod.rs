//! A CUDA device.

mod blas;
mod engines;
mod graph;
mod launch;
mod memory;
mod module;
mod operations;
mod rand;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

pub use blas::BlasWorkspace;
use engines::Engines;
pub(crate) use graph::{CapturedGraph, ExecutableGraph, StreamCapture};
pub(crate) use memory::DriverMemory;

use crate::error::{Error, Result};
use crate::memory::{Policy, StreamId};

/// Which CUDA device, and how its memory is managed.
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    /// Its number, as the driver counts: the `0` of `cuda:0`.
    pub ordinal: usize,
    /// Whether its allocator keeps what it is given back.
    pub policy: Policy,
}

/// A CUDA device by its primary context, with the one stream that all its work is ordered on.
#[derive(Debug)]
pub struct Cuda {
    // Dropped in this order: what stands on the context goes before it.
    engines: Engines,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

impl Cuda {
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        let unavailable = |detail: String| Error::Unavailable {
            device: format!("cuda:{ordinal}"),
            detail,
        };
        if !driver_is_present() {
            return Err(unavailable(
                "no CUDA driver on this machine; use the embedded device".into(),
            ));
        }
        let context = CudaContext::new(ordinal).map_err(|error| unavailable(error.to_string()))?;
        Ok(Self {
            engines: Engines::default(),
            stream: context.default_stream(),
            context,
        })
    }

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The stream of all work: the legacy default stream, as PyTorch's. Captured work, which is not
    /// done, goes to one of the capture.
    #[must_use]
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn engines(&self) -> &Engines {
        &self.engines
    }

    pub(crate) fn stream_id(&self) -> StreamId {
        StreamId(self.stream.cu_stream().addr() as u64)
    }

    /// The device's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.context.ordinal()
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        Ok(self.context.synchronize()?)
    }
}

#[expect(unsafe_code, reason = "cudarc marks the look for the library unsafe")]
fn driver_is_present() -> bool {
    // SAFETY: it only tries to open libcuda, whose initialisers are safe to run at any time.
    unsafe { cudarc::driver::sys::is_culib_present() }
}
