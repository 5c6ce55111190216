//! Identifies the device that something belongs to, for code that must not depend on the device
//! itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of a [`Device`](crate::Device). No two devices of a process have the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(u64);

impl DeviceId {
    /// Returns an identity that no other device has.
    pub(crate) fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
