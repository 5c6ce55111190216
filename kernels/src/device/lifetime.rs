//! The lifetime of a device: it ends when there is no handle to the device and no block of its
//! memory is handed out.
//!
//! Handles are counted here. Blocks need no counted handle, because the allocator counts them
//! anyway, under its lock. Counting a handle for each block as well would cost as much as the lock,
//! and more with several threads.
#![expect(
    unsafe_code,
    reason = "shares a value between two kinds of owners and counts only one kind"
)]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Device, DeviceState};
use crate::allocator::{Allocation, Caching, PoolId};
use crate::error::Result;
use crate::stream::{Stream, StreamId};

/// A handle to a device, like an [`Arc`](std::sync::Arc) of its state.
///
/// The count of handles and the allocator's count of blocks become 0 only under the allocator's
/// lock. The thread that finds both counts at 0 under the lock has given up the last reference to
/// the state, and destroys the state.
pub(super) struct Handle(NonNull<Counted>);

struct Counted {
    handles: AtomicU64,
    state: DeviceState,
}

/// A block of a device's memory, freed when dropped. It keeps its device alive.
#[derive(Debug)]
pub(crate) struct OwnedBlock {
    allocation: Allocation,
    /// A handle that is not counted, because the block is counted.
    device: ManuallyDrop<Device>,
}

// SAFETY: like an `Arc`, a handle gives shared access to the state from any thread, and any thread
// may destroy the state.
unsafe impl Send for Handle where DeviceState: Send + Sync {}
// SAFETY: the reason given for `Send` also covers shared references.
unsafe impl Sync for Handle where DeviceState: Send + Sync {}

impl Handle {
    pub(super) fn new(state: DeviceState) -> Self {
        let handles = AtomicU64::new(1);
        Self(NonNull::from(Box::leak(Box::new(Counted {
            handles,
            state,
        }))))
    }

    #[inline]
    pub(super) fn state(&self) -> &DeviceState {
        &self.counted().state
    }

    #[inline]
    fn counted(&self) -> &Counted {
        // SAFETY: this handle is counted, or belongs to a block that is handed out. The state is
        // destroyed only when there is neither a counted handle nor such a block.
        unsafe { self.0.as_ref() }
    }

    /// Calls `act` under the allocator's lock to give up one reference to the state, and destroys
    /// the state if that was the last reference. A counted handle is a reference, and so is a block
    /// that is handed out.
    ///
    /// # Safety
    ///
    /// `act` must give up a reference that the caller holds, and the handle must not be used
    /// afterwards.
    #[inline]
    unsafe fn give_up(&self, act: impl FnOnce(&Counted, &mut Caching)) {
        let counted = self.counted();
        let mut caching = counted.state.allocator.lock();
        act(counted, &mut caching);
        let last = !caching.has_handed_out() && counted.handles.load(Ordering::Acquire) == 0;
        // If it was not the last reference, another thread may destroy the state from here on.
        drop(caching);
        if last {
            // SAFETY: no reference is left, and a new one can only be derived from an existing one.
            // So nothing uses the state, and no other thread gets here.
            unsafe { self.destroy() };
        }
    }

    /// # Safety
    ///
    /// There must be no reference to the state.
    #[cold]
    #[inline(never)]
    unsafe fn destroy(&self) {
        // SAFETY: `new` leaked the box, and the caller guarantees that nothing refers to it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Clone for Handle {
    #[inline]
    fn clone(&self) -> Self {
        // The count cannot overflow in practice. Relaxed is enough, as in `Arc`, because this
        // handle is already a reference.
        self.counted().handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        let unless_last = |handles| (handles > 1).then(|| handles - 1);
        let handles = &self.counted().handles;
        let given_up = handles.fetch_update(Ordering::Release, Ordering::Relaxed, unless_last);
        if given_up.is_err() {
            // SAFETY: this handle is counted, and is being dropped.
            unsafe {
                self.give_up(|counted, _| {
                    counted.handles.fetch_sub(1, Ordering::Release);
                });
            }
        }
    }
}

impl OwnedBlock {
    /// Allocates a block of at least `bytes`, which must not be 0, for work on `stream`. In a
    /// capture, the block comes from the private pool of the captured graph.
    #[inline]
    pub(crate) fn new(
        device: &Device,
        bytes: usize,
        stream: StreamId,
        private: Option<PoolId>,
    ) -> Result<Self> {
        Ok(Self {
            allocation: device.allocator().allocate(bytes, stream, private)?,
            device: ManuallyDrop::new(Device(Handle(device.0.0))),
        })
    }

    #[inline]
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The address of its first byte.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.allocation.address
    }

    /// Records that work on `stream` uses the block.
    pub(crate) fn record_stream(&self, stream: &Stream) {
        let mut caching = self.device.allocator().lock();
        caching.record_stream(&self.allocation, stream);
    }
}

impl Drop for OwnedBlock {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the block is handed out until this frees it, and is being dropped.
        unsafe {
            self.device.0.give_up(|counted, caching| {
                counted.state.allocator.free(caching, &self.allocation);
            });
        }
    }
}
