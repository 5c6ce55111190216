//! Graphs of the CUDA driver, captured from a stream.
#![expect(unsafe_code, reason = "passes raw handles to the driver's C functions")]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaStream, DriverError, result};

use crate::error::{Error, Result};

/// With this mode, potentially unsafe calls fail only in the capturing thread, so another thread's
/// request for memory does not disturb the capture
/// (<https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html>).
const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;

thread_local! {
    /// The stream for this thread's work. Null is the legacy default stream.
    static QUEUE: Cell<sys::CUstream> = const { Cell::new(ptr::null_mut()) };
}

/// The stream of the capture to which this thread's work is redirected, if any.
pub(super) fn redirected() -> Option<sys::CUstream> {
    let queue = QUEUE.get();
    (!queue.is_null()).then_some(queue)
}

/// Rejects resources that are created at their first use if this thread is capturing.
///
/// # Errors
///
/// Returns an error if this thread is capturing.
pub(super) fn expect_warm(what: &str) -> Result<()> {
    if redirected().is_none() {
        return Ok(());
    }
    Err(Error::Capture {
        detail: format!("{what} cannot be captured; do the same work once before the capture"),
    })
}

/// A capture in progress on a separate stream, which is destroyed with the last clone of this
/// value.
#[derive(Clone, Debug)]
pub(crate) struct StreamCapture(Arc<DriverHandle<sys::CUstream>>);

impl StreamCapture {
    pub(crate) fn begin(context: &Arc<CudaContext>) -> Result<Self> {
        context.bind_to_thread()?;
        // This is not a stream of cudarc, because cudarc waits for the context when it creates the
        // second stream, which would break another thread's capture. The stream created here does
        // not synchronise with the default stream.
        let stream = DriverHandle {
            handle: result::stream::create(StreamKind::NonBlocking)?,
            destroy: result::stream::destroy,
            context: Arc::clone(context),
        };
        // SAFETY: the stream is alive.
        unsafe { result::stream::begin_capture(stream.handle, MODE) }?;
        Ok(Self(Arc::new(stream)))
    }

    /// Calls `act`, and redirects the work that it launches into the graph.
    pub(crate) fn redirect<T>(&self, act: impl FnOnce() -> T) -> T {
        /// Restores the queue when dropped, even if the stack unwinds.
        struct RestoreQueue(sys::CUstream);

        impl Drop for RestoreQueue {
            fn drop(&mut self) {
                QUEUE.set(self.0);
            }
        }

        let _restore = RestoreQueue(QUEUE.replace(self.0.handle));
        act()
    }

    /// Ends the capture and returns the recorded graph. Must run on the thread that began it.
    pub(crate) fn end(self) -> Result<CapturedGraph> {
        let context = &self.0.context;
        context.bind_to_thread()?;
        // SAFETY: the stream is alive.
        let handle = unsafe { result::stream::end_capture(self.0.handle) };
        let handle = handle.map_err(|error| match error.0 {
            CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => Error::Capture {
                detail: "the driver ended the capture: code in the capture called the driver \
                         itself, or another thread waited for the whole context"
                    .into(),
            },
            _ => error.into(),
        })?;
        Ok(CapturedGraph(DriverHandle {
            handle,
            destroy: result::graph::destroy,
            context: Arc::clone(context),
        }))
    }
}

/// A stream or graph of the driver, destroyed when dropped.
#[derive(Debug)]
struct DriverHandle<H: Copy> {
    handle: H,
    destroy: unsafe fn(H) -> Result<(), DriverError>,
    context: Arc<CudaContext>,
}

// SAFETY: handles are created only in this file, for streams and graphs. Any thread may use a
// stream at any time. Any thread may use a graph as long as only one thread does so at a time, and
// nothing here uses a graph through a shared reference.
unsafe impl<H: Copy> Send for DriverHandle<H> {}

// SAFETY: the reason given for `Send` also covers shared references.
unsafe impl<H: Copy> Sync for DriverHandle<H> {}

impl<H: Copy> Drop for DriverHandle<H> {
    fn drop(&mut self) {
        self.context.record_err(self.context.bind_to_thread());
        // SAFETY: `destroy` is the function for the handle's kind, and is called only here. An
        // executable graph does not need the graph that it was created from, and the driver lets a
        // launch in progress finish before it destroys an executable graph.
        let destroyed = unsafe { (self.destroy)(self.handle) };
        self.context.record_err(destroyed);
    }
}

#[derive(Debug)]
pub(crate) struct CapturedGraph(DriverHandle<sys::CUgraph>);

impl CapturedGraph {
    pub(crate) fn instantiate(self) -> Result<ExecutableGraph> {
        let Self(graph) = self;
        graph.context.bind_to_thread()?;
        // SAFETY: the graph is alive.
        let handle =
            unsafe { result::graph::instantiate(graph.handle, sys::CUgraphInstantiate_flags(0)) }?;
        Ok(ExecutableGraph(DriverHandle {
            handle,
            destroy: result::graph::exec_destroy,
            context: Arc::clone(&graph.context),
        }))
    }
}

/// An instantiated graph.
#[derive(Debug)]
pub(crate) struct ExecutableGraph(DriverHandle<sys::CUgraphExec>);

impl ExecutableGraph {
    /// Runs the graph on the device's own stream.
    pub(crate) fn launch(&mut self, stream: &CudaStream) -> Result<()> {
        self.0.context.bind_to_thread()?;
        // SAFETY: the graph and the stream are alive. The graph's owner keeps the graph's kernels
        // loaded, and neither frees nor moves the memory that the graph uses.
        Ok(unsafe { result::graph::launch(self.0.handle, stream.cu_stream()) }?)
    }
}

/// While this guard lives, this thread may ask the driver for memory during a capture. Such
/// memory is not part of the graph, and remains allocated.
#[derive(Debug)]
pub(super) struct RelaxedMode(CUstreamCaptureMode);

impl RelaxedMode {
    pub(super) fn enter() -> Result<Self, DriverError> {
        exchange(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).map(Self)
    }
}

impl Drop for RelaxedMode {
    fn drop(&mut self) {
        // The driver accepted the first exchange, so it also accepts this one.
        let _ = exchange(self.0);
    }
}

fn exchange(mut mode: CUstreamCaptureMode) -> Result<CUstreamCaptureMode, DriverError> {
    // SAFETY: `mode` outlives the call, and the driver writes a mode to it.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.result()?;
    Ok(mode)
}
