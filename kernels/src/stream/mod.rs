//! Queues of a device's work, as far as memory is concerned.

mod embedded;
mod event;

use std::sync::Arc;

use cudarc::driver::CudaStream;

pub use embedded::EmbeddedStream;
pub(crate) use event::Event;
pub use event::StreamId;

/// A queue of work on a device. Memory that is freed on a stream can be used immediately by the
/// next request on the same stream, whose work runs later; other streams have to wait.
///
/// Drop the last holder of a stream only after the stream's work is done, because a new stream may
/// get the same handle, and with it the memory cached for that handle.
#[derive(Clone, Debug)]
pub enum Stream {
    /// A stream of the CUDA driver.
    Cuda(Arc<CudaStream>),
    /// A simulated stream.
    Embedded(EmbeddedStream),
}

impl Stream {
    /// The stream's identity: the driver's handle, or the ID of a simulated stream.
    #[must_use]
    pub fn id(&self) -> StreamId {
        match self {
            Self::Cuda(stream) => StreamId(stream.cu_stream().addr() as u64),
            Self::Embedded(stream) => stream.id(),
        }
    }
}
