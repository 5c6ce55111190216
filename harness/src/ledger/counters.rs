//! How much is live and was at most, kept as it happens so that no reading searches the table.
//!
//! The most that was live at once is one number for all threads, but no event changes it unless it
//! raises it. What a thread gives back stays in its stripe as spare; what it takes, it takes from
//! there. Only where that does not suffice are the other stripes asked for theirs, and only where
//! all of them together do not suffice was there never so much at once: then the peak goes up by
//! what is lacking. So the peak is what is live and what is spare, at any moment.
//!
//! With one thread at work it is exact. With several it is never less than what was live at once,
//! and more only by what came back to a stripe just asked, while an event was looking for more.

use crate::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::name::{Layer, Place};
use super::record::Record;
use super::stripes::{Stripes, steps};
use super::timeline::{Curve, Watch};
use crate::quiet::quiet;

/// What a counter shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Now: bytes, or objects.
    pub live: u64,
    /// The most since the peaks were last restarted.
    pub peak: u64,
}

/// Counters: of bytes by layer and place, and after them of handles by place.
const COUNTERS: usize = (Layer::LIMIT + 1) * Place::LIMIT;

fn of_bytes(layer: Layer, place: Place) -> usize {
    layer.index() * Place::LIMIT + place.index()
}

fn of_handles(place: Place) -> usize {
    Layer::LIMIT * Place::LIMIT + place.index()
}

/// The counter of a record, and what it adds there.
pub(super) fn of(record: &Record) -> (usize, u64) {
    let made = &record.made;
    if made.kind.is_handle() {
        (of_handles(made.place), 1)
    } else {
        (of_bytes(made.layer, made.place), made.bytes)
    }
}

/// What one stripe has got back and may take again, by counter.
#[derive(Debug)]
pub(super) struct Spare(Box<[u64]>);

impl Spare {
    pub(super) fn new() -> Self {
        Self(vec![0; COUNTERS].into())
    }

    /// Takes as much of `amount` as there is. Answers with what is lacking.
    pub(super) fn draw(&mut self, counter: usize, amount: u64) -> u64 {
        let spare = &mut self.0[counter];
        let drawn = amount.min(*spare);
        *spare -= drawn;
        amount - drawn
    }

    /// Wraps, as all figures here: a recording may name any size.
    pub(super) fn give(&mut self, counter: usize, amount: u64) {
        let spare = &mut self.0[counter];
        *spare = spare.wrapping_add(amount);
    }
}

/// The most that was live at once, by counter.
#[derive(Debug)]
pub(super) struct Peaks(Box<[AtomicU64]>);

impl Peaks {
    pub(super) fn new() -> Self {
        Self((0..COUNTERS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Takes from any stripe what the record's own [lacks](Spare::draw) for it.
    #[cold]
    pub(super) fn cover(&self, stripes: &Stripes, record: &Record, mut lacking: u64) {
        let (counter, _) = of(record);
        for mut own in stripes.each() {
            lacking = own.spare.draw(counter, lacking);
            if lacking == 0 {
                return;
            }
        }
        self.0[counter].fetch_add(lacking, Ordering::Relaxed);
    }
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

/// The figures of every layer, place and kind.
#[derive(Debug)]
pub struct Counters<'ledger> {
    pub(super) stripes: &'ledger Stripes,
    pub(super) peaks: &'ledger Peaks,
}

impl Counters<'_> {
    fn read(&self, counter: usize) -> Counted {
        let _quiet = quiet();
        let peak = self.peaks.0[counter].load(Ordering::Relaxed);
        if peak == 0 {
            return Counted::default();
        }
        let spare = self.stripes.each().map(|own| own.spare.0[counter]);
        let live = spare.fold(peak, u64::wrapping_sub);
        // While others are at work the stripes are of different moments.
        let live = live.cast_signed().max(0).cast_unsigned();
        Counted { live, peak }
    }

    /// The bytes that `layer` has handed out at `place`.
    #[must_use]
    pub fn bytes(&self, layer: Layer, place: Place) -> Counted {
        self.read(of_bytes(layer, place))
    }

    /// The handles that belong to `place`.
    #[must_use]
    pub fn handles(&self, place: Place) -> Counted {
        self.read(of_handles(place))
    }

    /// The number of live records of one kind, everywhere.
    #[must_use]
    pub fn live(&self, kind: Kind) -> u64 {
        let _quiet = quiet();
        // None is what decides that there is nothing to search for: see `Stripes::live`.
        let all = self.stripes.at_once();
        let of_kind = all.iter().map(|own| own.kinds[kind as usize]);
        let live = of_kind.fold(0, u64::wrapping_add);
        live.cast_signed().max(0).cast_unsigned()
    }

    /// How each figure that changed after the moment `since`, at which `watch` stood already, did so.
    #[must_use]
    pub fn courses(&self, watch: &Watch<'_>, since: u64) -> Vec<Course> {
        let _quiet = quiet();
        let curves = watch.curves(steps(0, since), |counter| self.read(counter).live);
        let course = |(counter, curve)| {
            let layer = match counter / Place::LIMIT {
                Layer::LIMIT => None,
                layer => Some(Layer::known(layer)?),
            };
            Some(Course {
                place: Place::at(counter % Place::LIMIT),
                layer,
                curve,
            })
        };
        curves.into_iter().filter_map(course).collect()
    }

    /// Begins the peaks anew at what is live now.
    pub fn restart_peaks(&self) {
        let _quiet = quiet();
        let is_used = |counter: &usize| self.peaks.0[*counter].load(Ordering::Relaxed) != 0;
        let used: Vec<usize> = (0..COUNTERS).filter(is_used).collect();
        for mut own in self.stripes.each() {
            for &counter in &used {
                let spare = std::mem::take(&mut own.spare.0[counter]);
                self.peaks.0[counter].fetch_sub(spare, Ordering::Relaxed);
            }
        }
    }
}
