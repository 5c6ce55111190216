//! The allocators that programs use. They have no memory and report invented addresses, so the
//! model knows everything about them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_leak_check::Place;
use gpu_leak_check::observe::{PlacedSource, Source};
use gpu_leak_check::probe::{Probe, Segment};

/// An allocator that reports blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Allocator {
    /// Reports every block, in one address space for all its places.
    Reporting,
    /// Behaves like `Reporting`.
    Second,
    /// Reports every block, with a separate address space for each place.
    Placed,
    /// Reports some of its blocks. Its probe knows the sum of all blocks.
    Partly,
    /// Reports every block, and allocates whole segments for its blocks.
    Pool,
}

impl Allocator {
    /// The name of the allocator's layer in reports.
    pub(super) const fn layer(self) -> &'static str {
        match self {
            Self::Reporting => "allocator:reporting",
            Self::Second => "allocator:second",
            Self::Placed => "allocator:placed",
            Self::Partly => "allocator:partly",
            Self::Pool => "allocator:pool",
        }
    }

    /// Returns one of the allocator's two places. Allocators with a probe have only one place.
    pub(super) fn place(self, number: u8) -> Place {
        let names = match self {
            Self::Reporting | Self::Second | Self::Placed => ["device:0", "device:1"],
            Self::Partly => ["partly:0"; 2],
            Self::Pool => ["pool:0"; 2],
        };
        Place::named(names[usize::from(number % 2)])
    }

    /// The index of the place that [`Self::place`] returns. It is always 0 for an allocator with
    /// one place.
    pub(super) const fn place_number(self, number: u8) -> u8 {
        match self {
            Self::Reporting | Self::Second | Self::Placed => number % 2,
            Self::Partly | Self::Pool => 0,
        }
    }

    pub(super) fn allocated(self, place: u8, address: u64, bytes: u64) {
        let place = self.place(place);
        match self {
            Self::Reporting => REPORTING.allocated(place, address, bytes),
            Self::Second => SECOND.allocated(place, address, bytes),
            Self::Placed => PLACED.allocated(place, address, bytes),
            Self::Partly => {
                Sum::Partly.add(bytes);
                PARTLY.allocated(place, address, bytes);
            }
            Self::Pool => {
                IN_POOL.fetch_add(bytes, Ordering::Relaxed);
                POOLED.allocated(place, address, bytes);
            }
        }
    }

    pub(super) fn freed(self, place: u8, address: u64, bytes: u64) {
        match self {
            Self::Reporting => REPORTING.freed(address),
            Self::Second => SECOND.freed(address),
            Self::Placed => PLACED.freed(self.place(place), address),
            Self::Partly => {
                PARTLY.freed(address);
                Sum::Partly.subtract(bytes);
            }
            Self::Pool => {
                POOLED.freed(address);
                IN_POOL.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// The allocators' own files, which a report skips when it looks for the program's line. The file
/// of the call sites is not among them.
const OWN_SOURCES: &[&str] = &["composition/allocators.rs", "composition/run.rs"];

static REPORTING: Source = Source::new("reporting", OWN_SOURCES);
static SECOND: Source = Source::new("second", OWN_SOURCES);
static PLACED: PlacedSource = PlacedSource::new("placed", OWN_SOURCES);
static PARTLY: Source = Source::new("partly", OWN_SOURCES);
static POOLED: Source = Source::new("pool", OWN_SOURCES);

/// Returns the start of an address range that was never handed out before.
pub(super) fn fresh(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x7100_0000_0000);
    NEXT.fetch_add(bytes.next_multiple_of(4096), Ordering::Relaxed)
}

/// A sum of bytes that only a probe knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sum {
    /// The bytes of an allocator that reports nothing.
    Silent,
    /// The bytes of an allocator that reports some of its blocks, in addition to those blocks.
    Partly,
}

static SUMS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl Sum {
    pub(super) const ALL: [Self; 2] = [Self::Silent, Self::Partly];

    pub(super) const fn layer(self) -> &'static str {
        match self {
            Self::Silent => "allocator:silent",
            Self::Partly => "allocator:partly",
        }
    }

    pub(super) fn place(self) -> Place {
        Place::named(match self {
            Self::Silent => "silent:0",
            Self::Partly => "partly:0",
        })
    }

    pub(super) fn add(self, bytes: u64) {
        SUMS[self as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(self, bytes: u64) {
        SUMS[self as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

struct SumProbe(Sum);

impl Probe for SumProbe {
    fn name(&self) -> &'static str {
        self.0.layer().trim_start_matches("allocator:")
    }

    fn places(&self) -> Vec<Place> {
        vec![self.0.place()]
    }

    fn allocated(&self, _: Place) -> u64 {
        SUMS[self.0 as usize].load(Ordering::Relaxed)
    }

    fn reserved(&self, _: Place) -> u64 {
        0
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

static SILENT_PROBE: SumProbe = SumProbe(Sum::Silent);
gpu_leak_check::probe!(&SILENT_PROBE);
static PARTLY_PROBE: SumProbe = SumProbe(Sum::Partly);
gpu_leak_check::probe!(&PARTLY_PROBE);

/// The sum of the bytes of the pool's blocks.
static IN_POOL: AtomicU64 = AtomicU64::new(0);
/// The number of bytes that blocks occupy in the newest segment.
static USED_OF_NEWEST: AtomicU64 = AtomicU64::new(0);
static SEGMENTS: Mutex<Vec<Segment>> = Mutex::new(Vec::new());

fn segments() -> MutexGuard<'static, Vec<Segment>> {
    SEGMENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the pool allocate a new segment, which it keeps until the program ends.
pub(super) fn reserve(bytes: u64) -> u64 {
    let address = fresh(bytes);
    segments().push(Segment { address, bytes });
    // The caller may place a block at the start of the segment.
    USED_OF_NEWEST.store(4096, Ordering::Relaxed);
    address
}

/// Returns an address in the newest segment that no block has ever used, if there is one.
pub(super) fn in_newest(bytes: u64) -> Option<u64> {
    let segment = *segments().last()?;
    let offset = USED_OF_NEWEST.fetch_add(bytes.next_multiple_of(512), Ordering::Relaxed);
    (offset + bytes <= segment.bytes).then_some(segment.address + offset)
}

/// Resets everything except the blocks. Called at the end of each program.
pub(super) fn reset() {
    segments().clear();
    for sum in &SUMS {
        sum.store(0, Ordering::Relaxed);
    }
    IN_POOL.store(0, Ordering::Relaxed);
}

struct PoolProbe;

impl Probe for PoolProbe {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn places(&self) -> Vec<Place> {
        vec![Allocator::Pool.place(0)]
    }

    fn allocated(&self, _: Place) -> u64 {
        IN_POOL.load(Ordering::Relaxed)
    }

    fn reserved(&self, _: Place) -> u64 {
        segments().iter().map(|segment| segment.bytes).sum()
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        segments().clone()
    }

    fn empty_cache(&self, _: Place) {}
}

static POOL_PROBE: PoolProbe = PoolProbe;
gpu_leak_check::probe!(&POOL_PROBE);
