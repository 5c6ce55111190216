//! Lets other allocators and GPU APIs report to the harness. The harness itself sees every call to
//! the CUDA driver. Resources that it cannot see, such as the blocks of a caching allocator or of a
//! device that does not use CUDA, are reported here:
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
//!     // Report first: after the free, another thread may be given the same address.
//!     SOURCE.freed(address);
//!     // … back to the pool
//! }
//! # free(allocate(1));
//! ```
//!
//! In a program without checked tests, each call costs one relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ledger::event::{ContextUid, Creation, Event, Key, Space};
use crate::ledger::{self, Kind, Layer, Place};
use crate::recursion_guard::{RecursionGuard, quiet, try_quiet};
use crate::sync::{Mutex, OnceLock, locked};
use crate::{capture, exit};

/// Whether this program has checked tests, or a check has begun.
static LISTENING: AtomicBool = AtomicBool::new(false);

/// The function to call before each report of an allocation.
static BEFORE: OnceLock<fn(u64)> = OnceLock::new();

/// The source directories of every allocator that has reported.
static OWN_SOURCES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// An allocator that reports the blocks that it hands out. They appear in reports as the layer
/// `allocator:NAME`. This type is the counterpart of `gpu_leak_hooks::Source` for code that can use
/// this crate.
///
/// An address identifies one live block, regardless of the block's place. If blocks at different
/// places can have the same address, use [`PlacedSource`].
#[derive(Debug)]
pub struct Source(gpu_leak_hooks::Source);

impl Source {
    /// Creates a source for the allocator called `name`.
    ///
    /// `own_sources` are parts of the paths of the allocator's own source files (`my-pool/src/`). A
    /// report points at the first line outside these files, which is in the code that uses the
    /// allocator. The list can be empty for an allocator from a registry, whose files are skipped
    /// anyway.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self(gpu_leak_hooks::Source::new(name, own_sources))
    }

    /// Returns the layer for which this source reports.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`Layer::allocator`].
    pub fn layer(&self) -> Layer {
        layer(&self.0).unwrap_or_else(|| Layer::allocator(self.0.name))
    }

    /// Reports that `bytes` were allocated at `address`. Call this after the allocation. If the
    /// allocator also has a probe, call this before releasing the lock under which the probe reads
    /// its sum. Otherwise, a block that is counted but not yet reported looks like a block that is
    /// never reported.
    ///
    /// The harness allocates memory under its own locks. So an allocator that is also the program's
    /// global allocator must not hold a lock here for which an allocation may wait.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            allocated(&self.0, || place, address, bytes);
        }
    }

    /// Reports that `address` is freed. Call this before the allocator can hand out the address
    /// again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            freed(&self.0, || None, address);
        }
    }
}

/// The counterpart of [`Source`] for an allocator with one address space per device. The same
/// address may be in use on two devices, so a free has to specify the device.
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
    /// Creates a source for the allocator called `name`. `own_sources` has the same meaning as for
    /// [`Source::new`].
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self(gpu_leak_hooks::PlacedSource::new(name, own_sources))
    }

    /// Returns the layer for which this source reports.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`Layer::allocator`].
    pub fn layer(&self) -> Layer {
        let source = self.0.source();
        layer(source).unwrap_or_else(|| Layer::allocator(source.name))
    }

    /// Reports that `bytes` were allocated at `address` of `place`. Call this after the allocation.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            allocated(self.0.source(), || place, address, bytes);
        }
    }

    /// Reports that `address` of `place` is freed. Call this before the allocator can hand out the
    /// address again.
    #[inline]
    pub fn freed(&self, place: Place, address: u64) {
        if LISTENING.load(Ordering::Relaxed) {
            freed(self.0.source(), || Some(place), address);
        }
    }
}

/// Returns the layer for which an allocator reports; `None` if storing the layer's name would
/// itself report an allocation.
fn layer(source: &gpu_leak_hooks::Source) -> Option<Layer> {
    // Relaxed is sufficient, because the layer behind a number never changes.
    let number = source.number.load(Ordering::Relaxed);
    if let Some(known) = Layer::numbered(number) {
        return Some(known);
    }
    let _quiet = quiet();
    let mut all = locked(&OWN_SOURCES);
    let new = source.own_sources.iter();
    let new: Vec<_> = new.filter(|own| !all.contains(own)).collect();
    all.extend(new);
    drop(all);
    let layer = Layer::try_allocator(source.name)?;
    source.number.store(layer.number(), Ordering::Relaxed);
    Some(layer)
}

/// Converts a place of the hooks. If only a later version of the hooks knows this kind of place,
/// the place is named after the source, because an allocation must have a place.
pub(crate) fn place(source: &gpu_leak_hooks::Source, place: &gpu_leak_hooks::Place) -> Place {
    match (place.cuda_ordinal(), place.name()) {
        (Some(ordinal), _) => Place::cuda(ordinal),
        (None, Some(name)) => Place::named(name),
        (None, None) if *place == gpu_leak_hooks::Place::HOST => Place::HOST,
        (None, None) => Place::named(source.name),
    }
}

#[cold]
pub(crate) fn allocated(
    source: &gpu_leak_hooks::Source,
    place: impl FnOnce() -> Place,
    address: u64,
    bytes: u64,
) {
    let Some(_quiet) = begin_report() else {
        return;
    };
    let Some(layer) = layer(source) else {
        return;
    };
    if let Some(before) = BEFORE.get() {
        before(address);
    }
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

#[cold]
pub(crate) fn freed(
    source: &gpu_leak_hooks::Source,
    place: impl FnOnce() -> Option<Place>,
    address: u64,
) {
    let Some(_quiet) = begin_report() else {
        return;
    };
    let Some(layer) = layer(source) else {
        return;
    };
    let ledger = ledger::live();
    if let Some(ticket) = ledger.apply(&Event::FreeBegan {
        key: key(source, layer, place(), address),
        caller: capture::freeing_caller(),
    }) {
        ledger.apply(&capture::free_ended(ticket, 0));
    }
}

fn key(source: &gpu_leak_hooks::Source, layer: Layer, place: Option<Place>, address: u64) -> Key {
    let space = match place.filter(|_| source.per_place) {
        Some(place) => Space::ObservedAt(layer, place),
        None => Space::Observed(layer),
    };
    Key::new(space, address)
}

/// Sets the recursion guard on this thread, or returns `None` if a report from this thread must not
/// reach the ledger.
pub(crate) fn begin_report() -> Option<RecursionGuard> {
    // In a forked child, threads that no longer exist may hold the ledger's locks.
    if exit::forked() {
        return None;
    }
    try_quiet()
}

/// Begins to accept reports. This never ends, because otherwise a record could outlive its memory
/// and be attributed to the next owner of the address.
pub(crate) fn listen() {
    LISTENING.store(true, Ordering::Relaxed);
}

/// Calls `before` with the address before each report of an allocation. `before` must be quick
/// after its first call, and must not report anything itself. Only the first function that is set
/// takes effect.
pub(crate) fn before_each_allocation(before: fn(u64)) {
    let _ = BEFORE.set(before);
}

/// Returns the source directories of the allocators that have reported.
pub(crate) fn own_sources() -> Vec<&'static str> {
    let _quiet = quiet();
    locked(&OWN_SOURCES).clone()
}
