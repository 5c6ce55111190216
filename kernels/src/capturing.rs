//! Whether this thread captures a graph. All code below the graphs needs to know this, because
//! during a capture, memory comes from the graph's own pool, and operations that cannot be recorded
//! are rejected.

use std::cell::{Cell, RefCell};

use crate::allocator::PoolId;
use crate::device_id::DeviceId;
use crate::error::{Error, Result};

thread_local! {
    /// The capture of this thread. A thread that captures nothing only pays for reading this
    /// variable.
    static CAPTURE: Cell<Option<ThreadCapture>> = const { Cell::new(None) };
    /// The first error during that capture, even if the captured closure ignored it.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct ThreadCapture {
    device: DeviceId,
    pool: PoolId,
}

/// Begins to capture this thread's work for a device, with memory from a private pool.
pub(crate) fn begin(device: DeviceId, pool: PoolId) {
    FAILURE.set(None);
    CAPTURE.set(Some(ThreadCapture { device, pool }));
}

/// Ends the capture of this thread. Returns the first error that occurred during the capture.
pub(crate) fn end() -> Option<Error> {
    CAPTURE.set(None);
    FAILURE.take()
}

pub(crate) fn is_capturing() -> bool {
    CAPTURE.get().is_some()
}

/// The private pool for this thread's requests to a device; `None` means the shared pool.
#[inline]
pub(crate) fn pool_for(device: DeviceId) -> Option<PoolId> {
    let capture = CAPTURE.get()?;
    (capture.device == device).then_some(capture.pool)
}

/// Rejects an operation that cannot be recorded if this thread is capturing work of the device.
/// Otherwise, the operation is allowed.
///
/// # Errors
///
/// Returns an error if this thread is capturing work of the device. The capture then fails with
/// that error.
pub(crate) fn forbid(device: DeviceId, what: &str, why: &str) -> Result<()> {
    match pool_for(device) {
        None => Ok(()),
        Some(_) => refuse(what, why),
    }
}

/// Rejects operations that no capture can record.
///
/// # Errors
///
/// Always returns an error, and this thread's capture fails with it.
pub(crate) fn refuse<T>(what: &str, why: &str) -> Result<T> {
    note(Err(refusal(what, why)))
}

/// The error for something that cannot be captured.
pub(crate) fn refusal(what: &str, why: &str) -> Error {
    Error::Capture {
        detail: format!("{what} cannot be captured: {why}"),
    }
}

/// Makes the capture of this thread fail with an error, even if the captured closure ignores it.
pub(crate) fn note<T>(outcome: Result<T>) -> Result<T> {
    if let Err(error) = &outcome
        && is_capturing()
    {
        FAILURE.with_borrow_mut(|failure| {
            failure.get_or_insert_with(|| error.clone());
        });
    }
    outcome
}
