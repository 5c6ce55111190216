//! How each figure moved: a bounded number of samples, whatever the number of events.
//!
//! Times are the clocks of [`stripes`](super::stripes), which count events; a clock of hours would
//! cost as much as all the rest of one. A stripe samples what its own threads add and take away,
//! under the lock that their event has anyway: as long as a bucket lasts, an event compares three
//! numbers. A curve with too many buckets makes them twice as wide. Who reads adds the stripes up.

use crate::order;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::stripes::Stripes;

/// How many buckets a curve has before they are made twice as wide.
const MOST_BUCKETS: usize = 128;

/// What a figure was at some times that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<T = u64> {
    /// The first of these times.
    pub at: u64,
    /// How many times it covers.
    pub width: u64,
    /// The lowest value.
    pub least: T,
    /// The highest value.
    pub most: T,
    /// The value at its end, which holds until the next bucket.
    pub last: T,
}

/// How one figure moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The value before the first bucket.
    pub start: u64,
    /// In their order.
    pub buckets: Vec<Bucket>,
}

/// What the threads of one stripe did to the figures, each as a number that begins at 0.
#[derive(Debug, Default)]
pub(super) struct Moves(Vec<Move>);

#[derive(Debug)]
struct Move {
    counter: usize,
    /// The buckets are 2 to this power wide.
    scale: u32,
    /// The last is the one that lasts.
    buckets: Vec<Bucket<i64>>,
}

impl Moves {
    /// A counter was raised, or lowered: what is wrapped is lowered.
    #[inline]
    pub(super) fn moved(&mut self, counter: usize, at: u64, by: u64) {
        let known = self.0.iter_mut().find(|known| known.counter == counter);
        match known {
            Some(known) => known.moved(at, by.cast_signed()),
            None => self.begin(counter, at, by.cast_signed()),
        }
    }

    #[cold]
    fn begin(&mut self, counter: usize, at: u64, by: i64) {
        let mut buckets = Vec::with_capacity(MOST_BUCKETS);
        buckets.push(Bucket {
            at,
            width: 1,
            least: by,
            most: by,
            last: by,
        });
        self.0.push(Move {
            counter,
            scale: 0,
            buckets,
        });
    }
}

impl Move {
    #[inline]
    fn moved(&mut self, at: u64, by: i64) {
        // There is one from the beginning.
        let Some(now) = self.buckets.last_mut() else {
            return;
        };
        let live = now.last.wrapping_add(by);
        if at - now.at.min(at) >= now.width {
            return self.turn(at, live);
        }
        now.last = live;
        now.least = now.least.min(live);
        now.most = now.most.max(live);
    }

    /// Begins the bucket of the time `at`.
    #[cold]
    fn turn(&mut self, at: u64, live: i64) {
        if self.buckets.len() == MOST_BUCKETS {
            self.scale += 1;
            widen(&mut self.buckets, self.scale);
        }
        let bucket = Bucket {
            at: at >> self.scale << self.scale,
            width: 1 << self.scale,
            least: live,
            most: live,
            last: live,
        };
        match self.buckets.last_mut() {
            Some(last) if last.at == bucket.at => last.take_in(&bucket),
            _ => self.buckets.push(bucket),
        }
    }
}

impl<T: Ord + Copy> Bucket<T> {
    fn take_in(&mut self, next: &Self) {
        self.least = self.least.min(next.least);
        self.most = self.most.max(next.most);
        self.last = next.last;
    }
}

/// Puts together what lies in one bucket of the width 2 to the power of `scale`.
fn widen<T: Ord + Copy>(buckets: &mut Vec<Bucket<T>>, scale: u32) {
    let mut wide: Vec<Bucket<T>> = Vec::with_capacity(MOST_BUCKETS);
    for bucket in buckets.drain(..) {
        let at = bucket.at >> scale << scale;
        match wide.last_mut() {
            Some(last) if last.at == at => last.take_in(&bucket),
            _ => wide.push(Bucket {
                at,
                width: 1 << scale,
                ..bucket
            }),
        }
    }
    *buckets = wide;
}

/// While it lives, the figures' curves since it began can be read.
#[derive(Debug)]
pub struct Watch<'ledger> {
    stripes: &'ledger Stripes,
    watching: &'ledger AtomicUsize,
}

impl<'ledger> Watch<'ledger> {
    /// Where nobody else watches, the curves begin here; else they are as coarse as the longest
    /// watch has made them.
    pub(super) fn begin(stripes: &'ledger Stripes, watching: &'ledger AtomicUsize) -> Self {
        if watching.fetch_add(1, Ordering::Relaxed) == 0 {
            stripes.each().for_each(|mut own| own.moves.0.clear());
        }
        Self { stripes, watching }
    }

    /// How each counter that changed at the time `since` or later did so. `live` is what a counter
    /// shows now.
    pub(super) fn curves(&self, since: u64, live: impl Fn(usize) -> u64) -> Vec<(usize, Curve)> {
        let mut moves: Vec<(usize, Vec<Bucket<i64>>)> = Vec::new();
        for own in self.stripes.each() {
            let of_stripe = own.moves.0.iter();
            moves.extend(of_stripe.map(|it| (it.counter, it.buckets.clone())));
        }
        order::by_key(&mut moves, |(counter, _)| *counter);
        let of_one = moves.chunk_by(|one, other| one.0 == other.0);
        of_one
            .filter_map(|same| {
                let counter = same[0].0;
                let parts: Vec<_> = same.iter().map(|(_, buckets)| &**buckets).collect();
                Some((counter, sum(&parts, since, live(counter))?))
            })
            .collect()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.watching.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The sum of what all stripes did, which has come to `live`; none where nothing happened since.
fn sum(parts: &[&[Bucket<i64>]], since: u64, live: u64) -> Option<Curve> {
    let mut times: Vec<u64> = parts
        .iter()
        .flat_map(|part| part.iter().map(|it| it.at))
        .collect();
    order::natural(&mut times);
    times.dedup();
    let ended: i64 = parts
        .iter()
        .filter_map(|part| part.last())
        .map(|it| it.last)
        .fold(0, i64::wrapping_add);
    // Before the first bucket: what is live now without all that was done.
    let offset = live.wrapping_sub(ended.cast_unsigned());
    let value = |relative: i64| {
        let value = offset.wrapping_add(relative.cast_unsigned()).cast_signed();
        // The stripes are of slightly different times.
        value.max(0).cast_unsigned()
    };
    let mut next = vec![0; parts.len()];
    let mut start = value(0);
    let mut buckets: Vec<Bucket> = Vec::new();
    for (index, at) in times.iter().copied().enumerate() {
        let (mut least, mut most, mut last) = (0_i64, 0_i64, 0_i64);
        let mut width = 1;
        for (part, next) in parts.iter().zip(&mut next) {
            if part.get(*next).is_some_and(|bucket| bucket.at == at) {
                *next += 1;
            }
            let Some(bucket) = next.checked_sub(1).map(|now| part[now]) else {
                continue;
            };
            last = last.wrapping_add(bucket.last);
            if bucket.at + bucket.width > at {
                least = least.wrapping_add(bucket.least);
                most = most.wrapping_add(bucket.most);
                width = width.max(bucket.at + bucket.width - at);
            } else {
                least = least.wrapping_add(bucket.last);
                most = most.wrapping_add(bucket.last);
            }
        }
        let until = times.get(index + 1).copied().unwrap_or(u64::MAX);
        if at + width <= since {
            start = value(last);
            continue;
        }
        buckets.push(Bucket {
            at,
            width: width.min(until - at),
            least: value(least),
            most: value(most),
            last: value(last),
        });
    }
    for scale in 1.. {
        if buckets.len() <= MOST_BUCKETS {
            break;
        }
        widen(&mut buckets, scale);
    }
    (!buckets.is_empty()).then_some(Curve { start, buckets })
}

#[cfg(test)]
mod tests {
    use super::{Bucket, Curve, MOST_BUCKETS, Moves, sum};

    /// What one stripe of one figure did.
    #[derive(Default)]
    struct Figure {
        moves: Moves,
        live: u64,
    }

    impl Figure {
        fn becomes(&mut self, at: u64, live: u64) {
            let before = std::mem::replace(&mut self.live, live);
            self.moves.moved(7, at, live.wrapping_sub(before));
        }

        fn since(&self, since: u64) -> Option<Curve> {
            sum(&[&self.moves.0[0].buckets], since, self.live)
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
    fn stripes_are_added_up() {
        let (mut one, mut other) = (Figure::default(), Figure::default());
        one.becomes(1, 10);
        other.becomes(2, 5);
        one.becomes(4, 0);
        // What one thread took, another gives back.
        other.moves.moved(7, 6, 0_u64.wrapping_sub(5));
        let parts = [&*one.moves.0[0].buckets, &*other.moves.0[0].buckets];
        let curve = sum(&parts, 0, 100).expect("a curve");
        assert_eq!(curve.start, 100);
        assert_eq!(values(&curve), [(1, 110), (2, 115), (4, 105), (6, 100)]);
    }

    #[test]
    fn sizes_that_no_memory_has_wrap() {
        let (mut one, mut other) = (Figure::default(), Figure::default());
        one.becomes(1, u64::MAX / 2);
        other.becomes(2, u64::MAX / 2);
        let parts = [&*one.moves.0[0].buckets, &*other.moves.0[0].buckets];
        assert!(sum(&parts, 0, u64::MAX - 1).is_some());
    }

    #[test]
    fn a_stripe_behind_the_times_counts_as_of_its_last() {
        let mut figure = Figure::default();
        figure.becomes(20, 1);
        figure.becomes(4, 9);
        let curve = figure.since(0).expect("a curve");
        assert_eq!(values(&curve), [(20, 9)]);
    }
}
