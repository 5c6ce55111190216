//! How much is live and was at most, kept as it happens so that no reading searches the table.

use crate::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::name::{Layer, Place};
use super::record::Record;
use super::stripes::{STRIPES, stripe};
use super::timeline::{Curve, Curves, Sampler};

/// One figure, its highest value and how it moves. Alone on its cache line: threads on different devices and
/// kinds do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter {
    live: AtomicU64,
    peak: AtomicU64,
    sampler: Sampler,
}

impl Counter {
    /// What it was and what it is now.
    fn add(&self, amount: u64) -> (u64, u64) {
        // Wraps as the atomic does: a recording may name any size.
        let before = self.live.fetch_add(amount, Ordering::Relaxed);
        let live = before.wrapping_add(amount);
        // A peak is passed seldom; look before writing.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
        (before, live)
    }

    fn remove(&self, amount: u64) -> (u64, u64) {
        let before = self.live.fetch_sub(amount, Ordering::Relaxed);
        (before, before.wrapping_sub(amount))
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

/// How many figures of bytes there are; those of handles follow.
const BYTES: usize = Layer::LIMIT * Place::LIMIT;

/// The figures of every layer, place and kind.
#[derive(Debug)]
pub struct Counters {
    /// Bytes by layer and place.
    bytes: Box<[Counter]>,
    /// Handles by place.
    handles: Box<[Counter]>,
    /// Records by kind, in stripes: nobody asks for their peak, which would need one figure.
    kinds: Box<[Kinds]>,
    curves: Curves,
}

/// How the bytes of a layer, or the handles, moved at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Where.
    pub place: Place,
    /// Whose bytes; none of handles.
    pub layer: Option<Layer>,
    /// How.
    pub curve: Curve,
}

/// While it lives, the figures' courses since it began can be read.
#[derive(Debug)]
pub struct Watch<'counters>(&'counters Counters);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.curves.end();
    }
}

/// The records by kind that one stripe of threads made.
#[derive(Debug)]
#[repr(align(128))]
struct Kinds([AtomicU64; Kind::ALL.len()]);

impl Counters {
    pub(super) fn new() -> Self {
        let counters = |count| (0..count).map(|_| Counter::default()).collect();
        Self {
            bytes: counters(BYTES),
            handles: counters(Place::LIMIT),
            kinds: (0..STRIPES)
                .map(|_| Kinds([const { AtomicU64::new(0) }; Kind::ALL.len()]))
                .collect(),
            curves: Curves::default(),
        }
    }

    /// A record's figure, by its number, and its part in it.
    fn of(record: &Record) -> (usize, u64) {
        let made = &record.made;
        if made.kind.is_handle() {
            (BYTES + made.place.index(), 1)
        } else {
            let number = made.layer.index() * Place::LIMIT + made.place.index();
            (number, made.bytes)
        }
    }

    fn counter(&self, number: usize) -> &Counter {
        match number.checked_sub(BYTES) {
            Some(place) => &self.handles[place],
            None => &self.bytes[number],
        }
    }

    /// Counts a record, at the moment `at`.
    pub(super) fn add(&self, record: &Record, at: u64) {
        let (number, amount) = Self::of(record);
        let counter = self.counter(number);
        let (before, live) = counter.add(amount);
        let sampler = &counter.sampler;
        sampler.moved(&self.curves, number, at, before, live);
        self.live_like(record).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a record no more, since the moment `at`.
    pub(super) fn remove(&self, record: &Record, at: u64) {
        let (number, amount) = Self::of(record);
        let counter = self.counter(number);
        let (before, live) = counter.remove(amount);
        let sampler = &counter.sampler;
        sampler.moved(&self.curves, number, at, before, live);
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

    /// Begins to watch how the figures move. Where nobody else does, their curves begin here; else
    /// they are as coarse as the longest watch has made them.
    #[must_use]
    pub fn watch(&self) -> Watch<'_> {
        self.curves.begin(|number| &self.counter(number).sampler);
        Watch(self)
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

impl Watch<'_> {
    /// How each figure that changed after the moment `since` did so.
    #[must_use]
    pub fn courses(&self, since: u64) -> Vec<Course> {
        let counters = self.0;
        let now = |number| {
            let counter = counters.counter(number);
            (&counter.sampler, counter.live.load(Ordering::Relaxed))
        };
        let moved = counters.curves.since(since, now).into_iter();
        moved
            .filter_map(|(number, curve)| {
                let layer = match number < BYTES {
                    true => Some(Layer::known(number / Place::LIMIT)?),
                    false => None,
                };
                Some(Course {
                    place: Place::at(number % Place::LIMIT),
                    layer,
                    curve,
                })
            })
            .collect()
    }
}
