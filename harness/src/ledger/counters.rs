//! How much is live and was at most, kept as it happens so that no reading searches the table.

use crate::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::name::{Layer, Place};
use super::record::Record;
use super::stripes::{STRIPES, stripe};

/// One figure and its highest value. Alone on its cache line: threads on different devices and
/// kinds do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter {
    live: AtomicU64,
    peak: AtomicU64,
}

impl Counter {
    fn add(&self, amount: u64) {
        // Wraps as the atomic does: a recording may name any size.
        let before = self.live.fetch_add(amount, Ordering::Relaxed);
        let live = before.wrapping_add(amount);
        // A peak is passed seldom; look before writing.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
    }

    fn remove(&self, amount: u64) {
        self.live.fetch_sub(amount, Ordering::Relaxed);
    }

    fn read(&self) -> Counted {
        Counted {
            live: self.live.load(Ordering::Relaxed),
            peak: self.peak.load(Ordering::Relaxed),
        }
    }
}

/// What a counter shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Now: bytes, or objects.
    pub live: u64,
    /// The most since the peaks were last restarted.
    pub peak: u64,
}

/// The figures of every layer, place and kind.
#[derive(Debug)]
pub struct Counters {
    /// Bytes by layer and place.
    bytes: Box<[Counter]>,
    /// Handles by place.
    handles: Box<[Counter]>,
    /// Records by kind, in stripes: nobody asks for their peak, which would need one figure.
    kinds: Box<[Kinds]>,
}

/// The records by kind that one stripe of threads made.
#[derive(Debug)]
#[repr(align(128))]
struct Kinds([AtomicU64; Kind::ALL.len()]);

impl Counters {
    pub(super) fn new() -> Self {
        let counters = |count| (0..count).map(|_| Counter::default()).collect();
        Self {
            bytes: counters(Layer::LIMIT * Place::LIMIT),
            handles: counters(Place::LIMIT),
            kinds: (0..STRIPES)
                .map(|_| Kinds([const { AtomicU64::new(0) }; Kind::ALL.len()]))
                .collect(),
        }
    }

    fn of(&self, record: &Record) -> (&Counter, u64) {
        let made = &record.made;
        if made.kind.is_handle() {
            (&self.handles[made.place.index()], 1)
        } else {
            (
                &self.bytes[made.layer.index() * Place::LIMIT + made.place.index()],
                made.bytes,
            )
        }
    }

    pub(super) fn add(&self, record: &Record) {
        let (counter, amount) = self.of(record);
        counter.add(amount);
        self.live_like(record).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, record: &Record) {
        let (counter, amount) = self.of(record);
        counter.remove(amount);
        self.live_like(record).fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of records of this one's kind, in the stripe of the thread that made it.
    fn live_like(&self, record: &Record) -> &AtomicU64 {
        &self.kinds[stripe(record.made.caller.thread)].0[record.made.kind as usize]
    }

    /// The bytes that `layer` has handed out at `place`.
    #[must_use]
    pub fn bytes(&self, layer: Layer, place: Place) -> Counted {
        self.bytes[layer.index() * Place::LIMIT + place.index()].read()
    }

    /// The handles that belong to `place`.
    #[must_use]
    pub fn handles(&self, place: Place) -> Counted {
        self.handles[place.index()].read()
    }

    /// The number of live records of one kind, everywhere.
    #[must_use]
    pub fn live(&self, kind: Kind) -> u64 {
        let of_kind = |kinds: &Kinds| kinds.0[kind as usize].load(Ordering::Relaxed);
        self.kinds.iter().map(of_kind).sum()
    }

    /// Begins the peaks anew at what is live now.
    pub fn restart_peaks(&self) {
        for counter in self.bytes.iter().chain(&self.handles) {
            // A peak of 0 belongs to a place never used; leave its cache line alone.
            if counter.peak.load(Ordering::Relaxed) != 0 {
                counter
                    .peak
                    .store(counter.live.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}
