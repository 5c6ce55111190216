//! Graphs of the CUDA driver, captured from a stream.
#![expect(unsafe_code, reason = "calls the driver with handles")]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use crate::error::{Error, Result};

/// A thread's potentially unsafe calls fail in a capture of its own, and only there: another
/// thread's request for memory does no harm
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html>).
const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

thread_local! {
    /// Where this thread's work goes: null is the legacy default stream.
    static QUEUE: Cell<sys::CUstream> = const { Cell::new(ptr::null_mut()) };
}

/// The stream of the capture that this thread's work goes to, if it is redirected to one.
pub(super) fn redirected() -> Option<sys::CUstream> {
    let queue = QUEUE.get();
    (!queue.is_null()).then_some(queue)
}

/// Refuses, in a capture, to make what is made at its first use.
///
/// # Errors
///
/// In a capture.
pub(super) fn expect_warm(what: &str) -> Result<()> {
    if redirected().is_none() {
        return Ok(());
    }
    Err(Error::Capture {
        detail: format!("{what} cannot be captured; do the same work once before the capture"),
    })
}

/// A capture in progress, on a stream of its own, which is destroyed with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct StreamCapture(Arc<CaptureStream>);

impl StreamCapture {
    pub(crate) fn begin(context: &Arc<CudaContext>) -> Result<Self> {
        let stream = CaptureStream::new(context)?;
        // SAFETY: the stream is alive.
        unsafe { result::stream::begin_capture(stream.handle, MODE) }?;
        Ok(Self(Arc::new(stream)))
    }

    /// Redirects the work that `act` launches into the graph.
    pub(crate) fn redirect<T>(&self, act: impl FnOnce() -> T) -> T {
        /// Restores the queue, even when a panic passes through.
        struct RestoreQueue(sys::CUstream);

        impl Drop for RestoreQueue {
            fn drop(&mut self) {
                QUEUE.set(self.0);
            }
        }

        let _restore = RestoreQueue(QUEUE.replace(self.0.handle));
        act()
    }

    /// Ends the capture with what it recorded, on the thread that began it.
    pub(crate) fn end(self) -> Result<CapturedGraph> {
        let context = &self.0.context;
        context.bind_to_thread()?;
        // SAFETY: the stream is alive.
        let handle = unsafe { result::stream::end_capture(self.0.handle) };
        let handle = handle.map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => Error::Capture {
                detail: "the driver ended it: something in it called the driver itself, or \
                         another thread waited for the whole context"
                    .into(),
            },
            _ => error.into(),
        })?;
        Ok(CapturedGraph {
            handle,
            context: Arc::clone(context),
        })
    }
}

/// A stream that does not synchronise with the default stream.
///
/// Not cudarc's stream, which waits for the context when it makes the second stream: that would
/// break a capture of another thread.
#[derive(Debug)]
struct CaptureStream {
    handle: sys::CUstream,
    context: Arc<CudaContext>,
}

// SAFETY: any thread may use a stream.
unsafe impl Send for CaptureStream {}

// SAFETY: as above, at any time.
unsafe impl Sync for CaptureStream {}

impl CaptureStream {
    fn new(context: &Arc<CudaContext>) -> Result<Self> {
        context.bind_to_thread()?;
        Ok(Self {
            handle: result::stream::create(StreamKind::NonBlocking)?,
            context: Arc::clone(context),
        })
    }
}

impl Drop for CaptureStream {
    fn drop(&mut self) {
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: made in `new` and destroyed only here.
        let destroyed = unsafe { result::stream::destroy(self.handle) };
        self.context.record_err(destroyed);
    }
}

/// A captured graph, destroyed when dropped.
#[derive(Debug)]
pub(crate) struct CapturedGraph {
    handle: sys::CUgraph,
    context: Arc<CudaContext>,
}

// SAFETY: any thread may use a graph as long as only one does at a time; nothing here uses it by a
// shared reference.
unsafe impl Send for CapturedGraph {}

// SAFETY: as above.
unsafe impl Sync for CapturedGraph {}

impl CapturedGraph {
    pub(crate) fn instantiate(self) -> Result<ExecutableGraph> {
        self.context.bind_to_thread()?;
        // SAFETY: the graph is alive.
        let handle =
            unsafe { result::graph::instantiate(self.handle, sys::CUgraphInstantiate_flags(0)) }?;
        Ok(ExecutableGraph {
            handle,
            context: Arc::clone(&self.context),
        })
    }
}

impl Drop for CapturedGraph {
    fn drop(&mut self) {
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: destroyed only here; an executable graph does not need it.
        let destroyed = unsafe { result::graph::destroy(self.handle) };
        self.context.record_err(destroyed);
    }
}

/// An instantiated graph, destroyed when dropped.
#[derive(Debug)]
pub(crate) struct ExecutableGraph {
    handle: sys::CUgraphExec,
    context: Arc<CudaContext>,
}

// SAFETY: as for `CapturedGraph`: a launch takes it by an exclusive reference.
unsafe impl Send for ExecutableGraph {}

// SAFETY: as above.
unsafe impl Sync for ExecutableGraph {}

impl ExecutableGraph {
    /// Runs it on the device's own stream.
    pub(crate) fn launch(&mut self, stream: &CudaStream) -> Result<()> {
        self.context.bind_to_thread()?;
        // SAFETY: graph and stream are alive, and the owner of this keeps the memory that the graph
        // uses in place and its kernels loaded.
        Ok(unsafe { result::graph::launch(self.handle, stream.cu_stream()) }?)
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: destroyed only here. The driver lets a launch in progress finish first.
        let destroyed = unsafe { result::graph::exec_destroy(self.handle) };
        self.context.record_err(destroyed);
    }
}

/// While it lives, this thread may ask the driver for memory in the middle of a capture: that is
/// not part of the graph, and stays.
#[derive(Debug)]
pub(super) struct RelaxedMode(CUstreamCaptureMode);

impl RelaxedMode {
    pub(super) fn enter() -> Result<Self, DriverError> {
        exchange(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).map(Self)
    }
}

impl Drop for RelaxedMode {
    fn drop(&mut self) {
        // The driver accepted the first exchange, so it accepts this one.
        let _ = exchange(self.0);
    }
}

fn exchange(mut mode: CUstreamCaptureMode) -> Result<CUstreamCaptureMode, DriverError> {
    // SAFETY: `mode` lives through the call, and the driver puts a mode into it.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result()?;
    Ok(mode)
}
