//! The CUDA device itself.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream};

use super::blas::Blas;
use super::engines::Engines;
use super::graph;
use super::memory::DriverMemory;
use super::module::Kernel;
use super::rand::Generator;
use crate::allocator::{Policy, SegmentSource};
use crate::error::{Error, Result};
use crate::stream::StreamId;

/// Selects a CUDA device and how its memory is managed.
#[derive(Clone, Debug, Default)]
pub struct CudaConfig {
    /// The device's ordinal in the driver: the `0` of `cuda:0`.
    pub ordinal: usize,
    /// Whether the device's allocator caches freed memory.
    pub policy: Policy,
}

/// A CUDA device with its primary context, and the stream that orders all its work.
#[derive(Debug)]
pub struct Cuda {
    // Fields are dropped in this order: the context last, because the others use it.
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
                "there is no CUDA driver on this machine; use the embedded device".into(),
            ));
        }
        let context = CudaContext::new(ordinal).map_err(|error| unavailable(error.to_string()))?;
        Ok(Self {
            engines: Engines::default(),
            stream: context.default_stream(),
            context,
        })
    }

    /// The device's primary context.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The stream for all work: the legacy default stream, as in PyTorch. Captured work goes to a
    /// stream of the capture.
    #[must_use]
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The source of segments for the device's allocator.
    pub(crate) fn segment_source(&self) -> Box<dyn SegmentSource> {
        Box::new(DriverMemory::new(Arc::clone(&self.context)))
    }

    /// The stream for this thread's work. During a capture, this is the capture's own stream,
    /// because the device's stream cannot be captured. Otherwise it is the device's stream.
    pub(crate) fn queue(&self) -> CUstream {
        graph::redirected().unwrap_or_else(|| self.stream.cu_stream())
    }

    /// Returns the kernel, which is loaded at its first use.
    pub(crate) fn function(&self, kernel: Kernel) -> Result<&CudaFunction> {
        self.engines.modules.function(kernel, &self.context)
    }

    /// Calls cuBLAS for work on [`Self::queue`].
    pub(crate) fn with_blas<R>(&self, act: impl FnOnce(&mut Blas) -> Result<R>) -> Result<R> {
        let make = || {
            graph::expect_warm("the creation of a cuBLAS handle for the first large product")?;
            Blas::new(&self.stream)
        };
        let blas = &self.engines.blas;
        blas.with(make, |blas| match graph::redirected() {
            Some(capture) => blas.captured(capture, act),
            None => act(blas),
        })
    }

    /// Calls cuRAND for numbers that are drawn on the device's own stream.
    pub(crate) fn with_generator<R>(
        &self,
        act: impl FnOnce(&mut Generator) -> Result<R>,
    ) -> Result<R> {
        let generator = &self.engines.generator;
        generator.with(|| Generator::new(&self.stream), act)
    }

    pub(crate) fn stream_id(&self) -> StreamId {
        StreamId(self.stream.cu_stream().addr() as u64)
    }

    /// The device's ordinal.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.context.ordinal()
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        Ok(self.context.synchronize()?)
    }
}

#[expect(unsafe_code, reason = "cudarc marks this search as unsafe")]
fn driver_is_present() -> bool {
    // SAFETY: the call only tries to open libcuda, whose initialisers are safe to run at any time.
    unsafe { cudarc::driver::sys::is_culib_present() }
}
