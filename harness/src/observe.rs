//! Reporting an allocator, or another GPU API, to the harness.
//!
//! The harness sees every call to the CUDA driver by itself. What it cannot see, the pieces that
//! a caching allocator hands out, a device that is not CUDA's, is told here:
//!
//! ```
//! use gpu_leak_check::{Place, observe::Source};
//!
//! static SOURCE: Source = Source::new("my-pool", &["my-pool/src/"]);
//!
//! fn allocate(bytes: u64) -> u64 {
//!     let address = 0x7f00_0000_0000; // from the pool
//!     SOURCE.allocated(Place::cuda(0), address, bytes);
//!     address
//! }
//!
//! fn free(address: u64) {
//!     // First: afterwards another thread may be given the same address.
//!     SOURCE.freed(address);
//!     // … back to the pool
//! }
//! # free(allocate(1));
//! ```
//!
//! While no check has begun in the process, both cost one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::capture;
use crate::device::exit;
use crate::device::quiet::{Quiet, quiet_if_heard};
use crate::ledger::event::{ContextUid, Creation, Event, Key, Space, StackId};
use crate::ledger::{self, Kind, Layer, Place};

/// Whether any check has begun in this process.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// The source folders of every allocator that has reported.
static OWN_SOURCES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// An allocator that reports what it hands out: the layer `allocator:NAME`.
#[derive(Debug)]
pub struct Source {
    name: &'static str,
    own_sources: &'static [&'static str],
    layer: OnceLock<Layer>,
}

impl Source {
    /// An allocator called `name`.
    ///
    /// `own_sources` are pieces of the paths of its own source files (`my-pool/src/`): a report
    /// points at the first line outside them, the allocator's user. Empty for an allocator that
    /// comes from a registry, whose files are left out anyway.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self {
            name,
            own_sources,
            layer: OnceLock::new(),
        }
    }

    /// The layer it reports for.
    ///
    /// # Panics
    ///
    /// When more than 15 allocators report to one process.
    pub fn layer(&self) -> Layer {
        *self.layer.get_or_init(|| {
            let mut all = OWN_SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(self.own_sources);
            Layer::allocator(self.name)
        })
    }

    fn key(&self, address: u64) -> Key {
        Key {
            space: Space::Observed(self.layer()),
            value: address,
        }
    }

    /// It has handed out `bytes` at `address`. Call it after the fact.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            self.tell_allocated(place, address, bytes);
        }
    }

    /// `address` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            self.tell_freed(address);
        }
    }

    #[cold]
    fn tell_allocated(&self, place: Place, address: u64, bytes: u64) {
        let Some(_quiet) = heard() else {
            return;
        };
        ledger::live().apply(&Event::Created(Creation {
            key: self.key(address),
            kind: Kind::Block,
            layer: self.layer(),
            place,
            bytes,
            context: ContextUid::default(),
            stream: 0,
            pool: 0,
            caller: capture::caller(),
        }));
    }

    #[cold]
    fn tell_freed(&self, address: u64) {
        let Some(_quiet) = heard() else {
            return;
        };
        let ledger = ledger::live();
        if let Some(ticket) = ledger.apply(&Event::ReleaseBegan {
            key: self.key(address),
            caller: capture::caller_without_stack(),
        }) {
            ledger.apply(&Event::ReleaseEnded {
                ticket,
                error: 0,
                stack: StackId::default(),
            });
        }
    }
}

/// Marks this thread, unless a report of it is not for the ledger.
fn heard() -> Option<Quiet> {
    // In a forked child the ledger's locks may be held by threads that no longer exist.
    if exit::forked() {
        return None;
    }
    quiet_if_heard()
}

/// From now on reports are taken. Never turned off again: a record that is not released when its
/// memory is would be found under the next owner of its address.
pub(crate) fn listen() {
    LISTENING.store(true, Ordering::Relaxed);
}

/// The source folders of the allocators that have reported.
pub(crate) fn own_sources() -> Vec<&'static str> {
    OWN_SOURCES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
