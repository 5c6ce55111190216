//! Allocators without memory, one of each kind that a check must handle. One reports every block,
//! one has only a probe for the sum, one reports some of its blocks, and one allocates whole
//! segments and keeps them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};

/// The allocator's own files, which a report skips when it looks for the user's line.
const OWN_SOURCES: &[&str] = &["soundness/allocators.rs"];

/// Returns the start of an address range that has never been handed out.
fn fresh(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x7100_0000_0000);
    NEXT.fetch_add(bytes.next_multiple_of(4096), Ordering::Relaxed)
}

static REPORTING: Source = Source::new("reporting", OWN_SOURCES);

/// Allocates a block from an allocator that reports every block. Only an explicit call frees the
/// block.
pub(super) fn take(bytes: u64) -> u64 {
    take_on(Place::named("reporting:0"), bytes)
}

/// Like [`take`], but allocates in the given place.
pub(super) fn take_on(place: Place, bytes: u64) -> u64 {
    let address = fresh(bytes);
    report_at(place, address, bytes);
    address
}

/// Like [`take_on`], but allocates at the given address.
pub(super) fn report_at(place: Place, address: u64, bytes: u64) {
    REPORTING.allocated(place, address, bytes);
}

pub(super) fn give_back(address: u64) {
    REPORTING.freed(address);
}

/// A block that is freed when it is dropped.
#[derive(Debug)]
pub(super) struct Block(u64);

impl Block {
    pub(super) fn new(bytes: u64) -> Self {
        Self(take(bytes))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// An allocator for which only a probe knows how many bytes are allocated.
pub(super) struct Sum {
    name: &'static str,
    place: &'static str,
    /// Whether the allocated bytes are also reported as reserved.
    reserves: bool,
    allocated: AtomicU64,
}

impl Sum {
    const fn new(name: &'static str, place: &'static str, reserves: bool) -> Self {
        Self {
            name,
            place,
            reserves,
            allocated: AtomicU64::new(0),
        }
    }

    pub(super) fn take(&self, bytes: u64) {
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Probe for Sum {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Returns no place before the first use, because every check of this program reads the probe.
    fn places(&self) -> Vec<Place> {
        match self.allocated.load(Ordering::Relaxed) {
            0 => Vec::new(),
            _ => vec![Place::named(self.place)],
        }
    }

    fn allocated(&self, _: Place) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn reserved(&self, place: Place) -> u64 {
        if self.reserves {
            self.allocated(place)
        } else {
            0
        }
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

/// An allocator that reports none of its blocks.
pub(super) static SILENT: Sum = Sum::new("silent", "silent:0", true);
gpu_leak_check::probe!(&SILENT);

/// An allocator that reports only some of its blocks, and has no reserve.
pub(super) static PARTLY: Sum = Sum::new("partly", "partly:0", false);
gpu_leak_check::probe!(&PARTLY);
static PARTLY_REPORTED: Source = Source::new("partly", OWN_SOURCES);

/// Two pools of one allocator, each with a probe of its own.
pub(super) static TWINS: [Sum; 2] = [const { Sum::new("twin", "twin:0", false) }; 2];
gpu_leak_check::probe!(&TWINS[0]);
gpu_leak_check::probe!(&TWINS[1]);

/// Allocates a block of [`PARTLY`] that is reported, and never frees it.
pub(super) fn lose_reported(bytes: u64) -> u64 {
    let address = fresh(bytes);
    PARTLY.take(bytes);
    PARTLY_REPORTED.allocated(Place::named("partly:0"), address, bytes);
    address
}

/// Allocates a block of [`PARTLY`] that is reported, and frees it.
pub(super) fn borrow_reported(bytes: u64) {
    PARTLY_REPORTED.freed(lose_reported(bytes));
    PARTLY.give_back(bytes);
}

/// A pool that allocates whole segments from the layer below, and never releases one.
pub(super) struct Pool {
    segments: Mutex<Vec<Segment>>,
    allocated: AtomicU64,
}

pub(super) static POOL: Pool = Pool {
    segments: Mutex::new(Vec::new()),
    allocated: AtomicU64::new(0),
};
gpu_leak_check::probe!(&POOL);
static POOLED: Source = Source::new("pool", OWN_SOURCES);

impl Pool {
    fn all(&self) -> Vec<Segment> {
        let segments = self.segments.lock();
        segments.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Allocates a new segment of this size, which the pool keeps.
    pub(super) fn reserve(&self, bytes: u64) -> u64 {
        let address = fresh(bytes);
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.push(Segment { address, bytes });
        address
    }

    /// Allocates a new segment of this size, and in it a block that is never freed.
    pub(super) fn take(&self, block: u64, segment: u64) -> u64 {
        self.take_at(self.reserve(segment), block)
    }

    /// Allocates a block at this address, in a segment that the pool has.
    pub(super) fn take_at(&self, address: u64, block: u64) -> u64 {
        self.allocated.fetch_add(block, Ordering::Relaxed);
        POOLED.allocated(Place::named("pool:0"), address, block);
        address
    }
}

impl Probe for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn places(&self) -> Vec<Place> {
        match &self.all()[..] {
            [] => Vec::new(),
            _ => vec![Place::named("pool:0")],
        }
    }

    fn allocated(&self, _: Place) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn reserved(&self, _: Place) -> u64 {
        self.all().iter().map(|segment| segment.bytes).sum()
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        self.all()
    }

    fn empty_cache(&self, _: Place) {}
}

/// An allocator that keeps freed memory until its cache is emptied.
pub(super) struct Cache {
    reserved: AtomicU64,
}

pub(super) static CACHE: Cache = Cache {
    reserved: AtomicU64::new(0),
};
gpu_leak_check::probe!(&CACHE);

impl Cache {
    /// Allocates and frees a block, which stays in the cache.
    pub(super) fn borrow(&self, bytes: u64) {
        self.reserved.fetch_max(bytes, Ordering::Relaxed);
    }
}

impl Probe for Cache {
    fn name(&self) -> &'static str {
        "cache"
    }

    fn places(&self) -> Vec<Place> {
        match self.reserved.load(Ordering::Relaxed) {
            0 => Vec::new(),
            _ => vec![Place::named("cache:0")],
        }
    }

    fn allocated(&self, _: Place) -> u64 {
        0
    }

    fn reserved(&self, _: Place) -> u64 {
        self.reserved.load(Ordering::Relaxed)
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {
        self.reserved.store(0, Ordering::Relaxed);
    }
}

/// An allocator that reports every block with its requested size, but rounds the sizes up.
pub(super) static ROUNDING: Sum = Sum::new("rounding", "rounding:0", true);
gpu_leak_check::probe!(&ROUNDING);
static ROUNDED: Source = Source::new("rounding", OWN_SOURCES);

const fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(256)
}

/// Allocates a block of [`ROUNDING`].
pub(super) fn take_rounded(bytes: u64) -> u64 {
    let address = fresh(bytes);
    ROUNDING.take(rounded(bytes));
    ROUNDED.allocated(Place::named(ROUNDING.place), address, bytes);
    address
}

pub(super) fn give_back_rounded(address: u64, bytes: u64) {
    ROUNDED.freed(address);
    ROUNDING.give_back(rounded(bytes));
}
