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
use std::sync::{Mutex, PoisonError};

use crate::capture;
use crate::device::exit;
use crate::ledger::event::{ContextUid, Creation, Event, Key, Space, StackId};
use crate::ledger::{self, Kind, Layer, Place};
use crate::quiet::{Quiet, quiet, quiet_if_heard};

/// Whether any check has begun in this process.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// The source folders of every allocator that has reported.
static OWN_SOURCES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// An allocator that reports what it hands out: the layer `allocator:NAME`. The same as
/// `gpu_leak_hooks::Source`, for code that can name this crate.
///
/// An address of it is in use once, wherever it is. Where each of its places counts addresses from
/// the beginning, it is a [`PlacedSource`].
#[derive(Debug)]
pub struct Source(gpu_leak_hooks::Source);

impl Source {
    /// An allocator called `name`.
    ///
    /// `own_sources` are pieces of the paths of its own source files (`my-pool/src/`): a report
    /// points at the first line outside them, the allocator's user. Empty for an allocator that
    /// comes from a registry, whose files are left out anyway.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self(gpu_leak_hooks::Source::new(name, own_sources))
    }

    /// The layer it reports for.
    ///
    /// # Panics
    ///
    /// As [`Layer::allocator`].
    pub fn layer(&self) -> Layer {
        layer(&self.0).unwrap_or_else(|| Layer::allocator(self.0.name))
    }

    /// It has handed out `bytes` at `address`. Call it after the fact; where the allocator has a probe
    /// too, before it gives up the lock under which the probe reads its sum: a block that is counted
    /// and not reported yet looks like one that is never reported.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            allocated(&self.0, || place, address, bytes);
        }
    }

    /// `address` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            freed(&self.0, || None, address);
        }
    }
}

/// As [`Source`], of an allocator whose devices have addresses of their own: the same address may be
/// in use on two of them, and a free names the one it is about.
///
/// ```
/// use gpu_leak_check::{Place, observe::PlacedSource};
///
/// static HEAPS: PlacedSource = PlacedSource::new("my-heaps", &["my-heaps/src/"]);
///
/// // Offsets into each device's heap.
/// HEAPS.allocated(Place::named("npu:0"), 0x1000, 64);
/// HEAPS.allocated(Place::named("npu:1"), 0x1000, 64);
/// HEAPS.freed(Place::named("npu:0"), 0x1000);
/// HEAPS.freed(Place::named("npu:1"), 0x1000);
/// ```
#[derive(Debug)]
pub struct PlacedSource(gpu_leak_hooks::PlacedSource);

impl PlacedSource {
    /// As [`Source::new`].
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self(gpu_leak_hooks::PlacedSource::new(name, own_sources))
    }

    /// The layer it reports for.
    ///
    /// # Panics
    ///
    /// As [`Layer::allocator`].
    pub fn layer(&self) -> Layer {
        let source = self.0.source();
        layer(source).unwrap_or_else(|| Layer::allocator(source.name))
    }

    /// It has handed out `bytes` at `address` of `place`. Call it after the fact.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            allocated(self.0.source(), || place, address, bytes);
        }
    }

    /// `address` of `place` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, place: Place, address: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            freed(self.0.source(), || Some(place), address);
        }
    }
}

/// The layer that an allocator reports for; none where it reports what it takes to keep its own name.
fn layer(source: &gpu_leak_hooks::Source) -> Option<Layer> {
    // Whoever reads a number can use it: what it stands for does not change.
    let number = source.number.load(Ordering::Relaxed);
    if let Some(known) = Layer::numbered(number) {
        return Some(known);
    }
    let _quiet = quiet();
    let mut all = OWN_SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    let new = source.own_sources.iter();
    let new: Vec<_> = new.filter(|own| !all.contains(own)).collect();
    all.extend(new);
    drop(all);
    let layer = Layer::try_allocator(source.name)?;
    source.number.store(layer.number(), Ordering::Relaxed);
    Some(layer)
}

/// Where a place of the hooks is.
pub(crate) fn place(place: gpu_leak_hooks::Place) -> Place {
    match place {
        gpu_leak_hooks::Place::Cuda(ordinal) => Place::cuda(ordinal as usize),
        gpu_leak_hooks::Place::Host => Place::HOST,
        gpu_leak_hooks::Place::Named(name) => Place::named(name),
    }
}

/// An allocator has handed out `bytes` at `address`.
#[cold]
pub(crate) fn allocated(
    source: &gpu_leak_hooks::Source,
    place: impl FnOnce() -> Place,
    address: u64,
    bytes: u64,
) {
    let Some(_quiet) = heard() else {
        return;
    };
    let Some(layer) = layer(source) else {
        return;
    };
    let place = place();
    ledger::live().apply(&Event::Created(Creation {
        key: key(source, layer, Some(place), address),
        kind: Kind::Block,
        layer,
        place,
        bytes,
        context: ContextUid::default(),
        stream: 0,
        pool: 0,
        caller: capture::caller(),
    }));
}

/// An allocator is about to take `address` back.
#[cold]
pub(crate) fn freed(
    source: &gpu_leak_hooks::Source,
    place: impl FnOnce() -> Option<Place>,
    address: u64,
) {
    let Some(_quiet) = heard() else {
        return;
    };
    let Some(layer) = layer(source) else {
        return;
    };
    let ledger = ledger::live();
    if let Some(ticket) = ledger.apply(&Event::ReleaseBegan {
        key: key(source, layer, place(), address),
        caller: capture::freeing_caller(),
    }) {
        ledger.apply(&Event::ReleaseEnded {
            ticket,
            error: 0,
            stack: StackId::default(),
        });
    }
}

fn key(source: &gpu_leak_hooks::Source, layer: Layer, place: Option<Place>, address: u64) -> Key {
    Key {
        space: match place.filter(|_| source.per_place) {
            Some(place) => Space::ObservedAt(layer, place),
            None => Space::Observed(layer),
        },
        value: address,
    }
}

/// Marks this thread, unless a report of it is not for the ledger.
pub(crate) fn heard() -> Option<Quiet> {
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
    let _quiet = quiet();
    OWN_SOURCES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
