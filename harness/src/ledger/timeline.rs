//! How each figure moved: a bounded number of samples, whatever the number of events.
//!
//! Moments are those of the ledger's events; a clock would cost as much as all the rest of one. A
//! figure's sampler lies beside it, on the same cache line: as long as a bucket lasts, an event
//! compares three numbers. A curve with too many buckets makes them twice as wide.

use std::collections::BTreeMap;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// How many buckets a curve has before they are made twice as wide.
const MOST_BUCKETS: usize = 128;

/// Where a mark's scale begins; below it is the bucket's number.
const SCALE: u32 = 58;

/// The bucket that a figure is in. Most events change nothing here.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// The bucket: its moments' number above `scale` bits, and the scale; 0 before the first.
    mark: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
}

/// What a figure was at some moments that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The first of these moments.
    pub at: u64,
    /// How many moments it covers.
    pub width: u64,
    /// The lowest value.
    pub least: u64,
    /// The highest value.
    pub most: u64,
    /// The value at its end, which holds until the next bucket.
    pub last: u64,
}

/// How one figure moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The value before the first bucket.
    pub start: u64,
    /// In their order.
    pub buckets: Vec<Bucket>,
    scale: u32,
}

/// The curves of all figures that moved, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Curves(Mutex<Moved>);

#[derive(Debug, Default)]
struct Moved {
    watching: usize,
    curves: BTreeMap<usize, Curve>,
}

impl Sampler {
    /// The figure `number` was `before` and became `live`, at the moment `at`. One from the past
    /// counts as of now.
    #[inline]
    pub(super) fn moved(&self, curves: &Curves, number: usize, at: u64, before: u64, live: u64) {
        if is_over(self.mark.load(Ordering::Relaxed), at) {
            self.turn(curves, number, at, before, live);
        }
        if live > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(live, Ordering::Relaxed);
        } else if live < self.least.load(Ordering::Relaxed) {
            self.least.fetch_min(live, Ordering::Relaxed);
        }
    }

    /// Begins the bucket of the moment `at`, unless another thread has.
    #[cold]
    fn turn(&self, curves: &Curves, number: usize, at: u64, before: u64, live: u64) {
        let mut moved = curves.lock();
        let mark = self.mark.load(Ordering::Relaxed);
        if !is_over(mark, at) {
            return;
        }
        let curve = moved.curves.entry(number).or_insert_with(|| Curve {
            start: before,
            buckets: Vec::with_capacity(MOST_BUCKETS),
            scale: 0,
        });
        // What another thread raises meanwhile goes into one of the two: no peak is lost.
        let least = self.least.swap(live, Ordering::Relaxed);
        let most = self.most.swap(live, Ordering::Relaxed);
        if mark != 0 {
            curve.close(mark, least, most, before);
        }
        if let Some(again) = curve.reopen(at) {
            self.least.fetch_min(again.least, Ordering::Relaxed);
            self.most.fetch_max(again.most, Ordering::Relaxed);
        }
        let mark = u64::from(curve.scale) << SCALE | at >> curve.scale;
        self.mark.store(mark, Ordering::Relaxed);
    }

    fn restart(&self) {
        self.mark.store(0, Ordering::Relaxed);
    }
}

/// Whether `at` is past the bucket of `mark`.
fn is_over(mark: u64, at: u64) -> bool {
    let (scale, number) = parts(mark);
    at >> scale > number
}

fn parts(mark: u64) -> (u32, u64) {
    ((mark >> SCALE) as u32, mark & ((1 << SCALE) - 1))
}

impl Curve {
    /// One that began with nothing.
    #[cfg(test)]
    pub(crate) fn of(buckets: Vec<Bucket>) -> Self {
        Self {
            start: 0,
            buckets,
            scale: 0,
        }
    }

    fn close(&mut self, mark: u64, least: u64, most: u64, last: u64) {
        let (scale, number) = parts(mark);
        self.buckets.push(Bucket {
            at: number << scale,
            width: 1 << scale,
            least,
            most,
            last,
        });
        if self.buckets.len() == MOST_BUCKETS {
            self.scale += 1;
            self.widen();
        }
    }

    /// Puts together what lies in one bucket of the new width.
    fn widen(&mut self) {
        let (scale, width) = (self.scale, 1 << self.scale);
        let mut kept: usize = 0;
        for at in 0..self.buckets.len() {
            let bucket = self.buckets[at];
            let begins = bucket.at >> scale << scale;
            match self.buckets[..kept].last_mut() {
                Some(open) if open.at == begins => open.take_in(&bucket),
                _ => {
                    self.buckets[kept] = Bucket {
                        at: begins,
                        width,
                        ..bucket
                    };
                    kept += 1;
                }
            }
        }
        self.buckets.truncate(kept);
    }

    /// The last bucket, if it is the one of the moment `at` since they were widened.
    fn reopen(&mut self, at: u64) -> Option<Bucket> {
        let begins = at >> self.scale << self.scale;
        self.buckets.pop_if(|last| last.at == begins)
    }

    /// The part after the moment `since`; none where nothing happened then.
    fn since(mut self, since: u64) -> Option<Self> {
        let first = self
            .buckets
            .iter()
            .position(|bucket| bucket.at + bucket.width > since)?;
        if let Some(before) = first.checked_sub(1) {
            self.start = self.buckets[before].last;
        }
        self.buckets.drain(..first);
        Some(self)
    }
}

impl Bucket {
    fn take_in(&mut self, next: &Self) {
        self.least = self.least.min(next.least);
        self.most = self.most.max(next.most);
        self.last = next.last;
    }
}

impl Curves {
    fn lock(&self) -> MutexGuard<'_, Moved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody watches: the first of them begins with empty curves.
    pub(super) fn begin<'a>(&self, sampler: impl Fn(usize) -> &'a Sampler) {
        let mut moved = self.lock();
        moved.watching += 1;
        if moved.watching == 1 {
            for number in std::mem::take(&mut moved.curves).into_keys() {
                sampler(number).restart();
            }
        }
    }

    pub(super) fn end(&self) {
        self.lock().watching -= 1;
    }

    /// What moved after the moment `since`, by the figures' numbers. `now` is a figure's sampler and
    /// its present value.
    pub(super) fn since<'a>(
        &self,
        since: u64,
        now: impl Fn(usize) -> (&'a Sampler, u64),
    ) -> Vec<(usize, Curve)> {
        let moved = self.lock();
        let complete = |(number, curve): (&usize, &Curve)| {
            let mut curve = curve.clone();
            let (sampler, live) = now(*number);
            let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
            let mark = of(&sampler.mark);
            curve.close(mark, of(&sampler.least), of(&sampler.most), live);
            Some((*number, curve.since(since)?))
        };
        moved.curves.iter().filter_map(complete).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Curve, Curves, MOST_BUCKETS, Sampler};

    #[derive(Default)]
    struct Figure {
        sampler: Sampler,
        curves: Curves,
        live: u64,
    }

    impl Figure {
        fn becomes(&mut self, at: u64, live: u64) {
            let before = std::mem::replace(&mut self.live, live);
            self.sampler.moved(&self.curves, 7, at, before, live);
        }

        fn since(&self, since: u64) -> Option<Curve> {
            let mut all = self.curves.since(since, |_| (&self.sampler, self.live));
            all.pop().map(|(_, curve)| curve)
        }
    }

    fn values(curve: &Curve) -> Vec<(u64, u64)> {
        curve.buckets.iter().map(|it| (it.at, it.most)).collect()
    }

    #[test]
    fn a_short_curve_has_every_step() {
        let mut figure = Figure {
            live: 5,
            ..Figure::default()
        };
        figure.becomes(10, 8);
        figure.becomes(11, 3);
        figure.becomes(15, 9);
        let curve = figure.since(10).expect("a curve");
        assert_eq!(curve.start, 5);
        assert_eq!(values(&curve), [(10, 8), (11, 3), (15, 9)]);
        let later = figure.since(12).expect("a curve");
        assert_eq!((later.start, values(&later)), (3, vec![(15, 9)]));
        assert_eq!(figure.since(16), None);
    }

    #[test]
    fn a_long_curve_stays_small_and_keeps_its_peak_and_its_dip() {
        let mut figure = Figure::default();
        for at in 1..1_000_000 {
            let live = match at {
                654_321 => 1_000,
                777_777 => 1,
                _ => 100 + at % 7,
            };
            figure.becomes(at, live);
        }
        let curve = figure.since(0).expect("a curve");
        assert!(curve.buckets.len() <= MOST_BUCKETS, "{curve:?}");
        assert!(curve.buckets.len() >= MOST_BUCKETS / 2 - 1, "{curve:?}");
        let holding = |at: u64| -> Bucket {
            let mut all = curve.buckets.iter();
            let found = all.find(|it| (it.at..it.at + it.width).contains(&at));
            *found.expect("no gap")
        };
        assert_eq!(holding(654_321).most, 1_000);
        assert_eq!(holding(777_777).least, 1);
        let most = curve.buckets.iter().map(|it| it.most).max();
        assert_eq!(most, Some(1_000));
    }

    #[test]
    fn an_event_from_the_past_counts_as_of_now() {
        let mut figure = Figure::default();
        figure.becomes(20, 1);
        figure.becomes(4, 9);
        let curve = figure.since(0).expect("a curve");
        assert_eq!(values(&curve), [(20, 9)]);
    }

    #[test]
    fn the_first_who_watches_begins_anew_and_others_do_not() {
        let mut figure = Figure::default();
        figure.becomes(1, 1);
        figure.curves.begin(|_| &figure.sampler);
        assert_eq!(figure.since(0), None);
        figure.becomes(2, 2);
        figure.curves.begin(|_| &figure.sampler);
        figure.becomes(3, 3);
        let curve = figure.since(0).expect("a curve");
        assert_eq!((curve.start, values(&curve)), (1, vec![(2, 2), (3, 3)]));
    }
}
