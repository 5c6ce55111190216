//! The CUDA driver's memory, in whole segments.
#![expect(unsafe_code, reason = "passes addresses to the driver's C functions")]

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaEvent, DriverError, result};

use crate::allocator::{DeviceMemory, SegmentError, SegmentSource};
use crate::capturing::is_capturing;
use crate::error::{Error, Result};
use crate::stream::{Event, Stream};

use super::graph::RelaxedMode;

/// Allocates with `cuMemAlloc` and frees with `cuMemFree`, in one context.
#[derive(Debug)]
pub(crate) struct DriverMemory {
    context: Arc<CudaContext>,
}

impl DriverMemory {
    pub(crate) fn new(context: Arc<CudaContext>) -> Self {
        Self { context }
    }
}

impl SegmentSource for DriverMemory {
    fn allocate(&self, bytes: usize) -> Result<u64, SegmentError> {
        let _relaxed = relaxed();
        let taken = self
            .context
            .bind_to_thread()
            // SAFETY: a context is current. The memory is not initialised, but only kernels and
            // copies on the device read it, and any bytes are valid values of the element types.
            .and_then(|()| unsafe { result::malloc_sync(bytes) });
        taken.map_err(|error| match error {
            DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => SegmentError::OutOfMemory,
            other => SegmentError::Other(other.into()),
        })
    }

    /// The driver waits for the device's work, which may still use the segment.
    fn free(&self, address: u64, _bytes: usize) -> Result<()> {
        self.context.bind_to_thread()?;
        // SAFETY: the address came from `allocate`, and the allocator returns each segment once,
        // when no block in it is handed out.
        Ok(unsafe { result::free_sync(address) }?)
    }

    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>> {
        match stream {
            Stream::Cuda(stream) => Ok(Box::new(stream.record_event(None)?)),
            Stream::Embedded(_) => Err(Error::Argument {
                operation: "record",
                detail: "a simulated stream does no work on a CUDA device".into(),
            }),
        }
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.context.synchronize()?)
    }

    fn memory(&self) -> Result<DeviceMemory> {
        let _relaxed = relaxed();
        let (free, total) = self.context.mem_get_info()?;
        Ok(DeviceMemory { free, total })
    }
}

/// Keeps the allocator's own calls out of a graph that is being captured. If the mode cannot be
/// changed, the call that follows fails with its own error.
fn relaxed() -> Option<Result<RelaxedMode, DriverError>> {
    is_capturing().then(RelaxedMode::enter)
}

impl Event for CudaEvent {
    fn is_done(&self) -> Result<bool> {
        Ok(self.try_is_complete()?)
    }

    fn wait(&self) -> Result<()> {
        Ok(self.synchronize()?)
    }
}
