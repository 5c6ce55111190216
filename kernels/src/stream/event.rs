//! The properties of a stream that the caching allocator uses: its identity, and events recorded in
//! it.

use std::fmt;

use crate::error::Result;

/// The identity of the stream to which a block belongs. 0 is the device's default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// An event in a stream: the end of all work that was submitted to the stream before the event.
pub(crate) trait Event: fmt::Debug + Send {
    /// Whether the work before the event is done.
    fn is_done(&self) -> Result<bool>;

    /// Waits for the work before the event.
    fn wait(&self) -> Result<()>;
}
