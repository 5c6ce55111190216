//! What is asked of the driver while one of its calls is heard: at most one thing in a call that makes
//! or frees memory, outside a capture, and never anything that waits for a device.

#![expect(unsafe_code, reason = "streams are named by their handles")]

use super::call::place_of;
use crate::device::driver;
use crate::ledger::Place;

/// Answers, of the driver or of a test.
pub(super) trait Questions {
    /// The context current to this thread; 0 for none.
    fn current_context(&self) -> u64;
    /// The device of that context.
    fn current_device(&self) -> Place;
    /// Whether a device's primary context is live; none where nobody says.
    fn primary_is_active(&self, device: Place) -> Option<bool>;
    /// The graph that a stream is captured into, 0 for one without a name; none where it is not being
    /// captured. `per_thread`: stream 0 is the thread's own.
    ///
    /// # Safety
    ///
    /// The stream is one that the program passes to the driver on this thread now.
    unsafe fn captured_into(&self, stream: u64, per_thread: bool) -> Option<u64>;
    /// The bytes of the range that begins at an address; 0 where nobody says.
    fn bytes_at(&self, address: u64) -> u64;
}

/// The driver of this process.
pub(super) struct OfDriver;

impl Questions for OfDriver {
    fn current_context(&self) -> u64 {
        let context = driver::get().and_then(|driver| driver.current_context().ok());
        context.unwrap_or(0)
    }

    fn current_device(&self) -> Place {
        let device = driver::get().and_then(|driver| driver.current_device().ok());
        device.map_or(Place::UNKNOWN, place_of)
    }

    fn primary_is_active(&self, device: Place) -> Option<bool> {
        let device = device.cuda_ordinal()?;
        driver::get()?.primary_is_active(device).ok()
    }

    unsafe fn captured_into(&self, stream: u64, per_thread: bool) -> Option<u64> {
        // SAFETY: the caller's promise: it lives as long as the program's own call needs it.
        unsafe { driver::get()?.captured_into(stream, per_thread) }.ok()?
    }

    fn bytes_at(&self, address: u64) -> u64 {
        let bytes = driver::get().and_then(|driver| driver.bytes_at(address).ok());
        bytes.unwrap_or(0)
    }
}
