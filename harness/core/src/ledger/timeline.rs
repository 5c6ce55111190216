//! Logs how usage changes while it is watched. The size of the log is bounded, no matter how many
//! events there are.
//!
//! Times are sequence numbers of events. A shard logs the value of a figure after each of its
//! events. When its log is full, samples that are close in time are merged into one with their
//! minimum and maximum, so a long log is coarse but small.

use super::usage::{Counted, UsageKey};

/// The largest number of samples that a log holds before its resolution is halved.
const MAX_SAMPLES: usize = 128;

/// The values of a figure during some consecutive events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The sequence number of the first event.
    pub at: u64,
    /// The sequence number of the last event.
    pub until: u64,
    /// The lowest value.
    pub least: u64,
    /// The highest value.
    pub most: u64,
    /// The value after the last event, which holds until the next sample.
    pub last: u64,
}

/// How one figure changed over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The figure.
    pub of: UsageKey,
    /// The value before the first sample.
    pub start: u64,
    /// The exact peak since the peaks were last restarted.
    pub peak: u64,
    /// The samples, in order.
    pub samples: Vec<Sample>,
}

/// A shard's samples of one figure.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleLog {
    /// The value before the first sample.
    start: u64,
    /// Samples are merged if the sequence numbers of their events differ only in this many low
    /// bits.
    scale: u32,
    samples: Vec<Sample>,
}

impl SampleLog {
    /// Logs that the event with the sequence number `at` changed the figure from `before` to
    /// `live`.
    #[inline]
    pub(super) fn add(&mut self, at: u64, before: u64, live: u64) {
        match self.samples.last_mut() {
            Some(last) if last.is_near(at, self.scale) => {
                last.merge(&Sample::at(at, live));
            }
            _ => self.push(before, Sample::at(at, live)),
        }
    }

    #[inline(never)]
    fn push(&mut self, before: u64, sample: Sample) {
        if self.samples.is_empty() {
            self.start = before;
        }
        self.samples.push(sample);
        while self.samples.len() > MAX_SAMPLES {
            self.scale += 1;
            join(&mut self.samples, self.scale);
        }
    }

    pub(super) fn clear(&mut self) {
        self.scale = 0;
        self.samples.clear();
    }
}

impl Sample {
    /// Creates the sample for the value that one event gave a figure.
    fn at(at: u64, value: u64) -> Self {
        Self {
            at,
            until: at,
            least: value,
            most: value,
            last: value,
        }
    }

    /// Whether an event at `next` is so close that it belongs to this sample.
    fn is_near(&self, next: u64, scale: u32) -> bool {
        self.at >> scale == next >> scale
    }

    fn merge(&mut self, next: &Self) {
        self.least = self.least.min(next.least);
        self.most = self.most.max(next.most);
        if next.until >= self.until {
            (self.until, self.last) = (next.until, next.last);
        }
    }
}

/// Merges samples that are close in time. They must be ordered by their first events.
fn join(samples: &mut Vec<Sample>, scale: u32) {
    samples.dedup_by(|next, last| {
        let is_near = last.is_near(next.at, scale);
        if is_near {
            last.merge(next);
        }
        is_near
    });
}

/// Returns the curve of a figure since the event `since`, from the logs of all shards, or `None` if
/// it did not change. `now` is its current value and its peak. The curve has no more than `most`
/// samples.
pub(super) fn curve(
    of: UsageKey,
    logs: &[SampleLog],
    since: u64,
    most: usize,
    now: Counted,
) -> Option<Curve> {
    let first = logs
        .iter()
        .filter_map(|log| Some((log.samples.first()?.at, log.start)));
    let (_, mut start) = first.min_by_key(|(at, _)| *at)?;
    let mut samples: Vec<Sample> = logs.iter().flat_map(|log| log.samples.clone()).collect();
    samples.sort_by_key(|sample| sample.at);
    let earlier = samples.iter().filter(|sample| sample.until < since);
    if let Some(last) = earlier.max_by_key(|sample| sample.until) {
        start = last.last;
    }
    samples.retain(|sample| sample.until >= since);
    let mut scale = logs.iter().map(|log| log.scale).max().unwrap_or(0);
    join(&mut samples, scale);
    while samples.len() > most {
        scale += 1;
        join(&mut samples, scale);
    }
    // Simultaneous events of two shards are not always applied in the order of their sequence
    // numbers.
    let last = samples.last_mut()?;
    last.merge(&Sample::at(last.until, now.live));
    Some(Curve {
        of,
        start,
        peak: now.peak,
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::super::name::{Layer, Place};
    use super::{Counted, Curve, MAX_SAMPLES, Sample, SampleLog, UsageKey, curve};

    const OF: UsageKey = UsageKey {
        layer: Some(Layer::DRIVER),
        place: Place::HOST,
    };

    /// The logs of two shards for one figure.
    #[derive(Default)]
    struct Figure {
        logs: [SampleLog; 2],
        live: u64,
    }

    impl Figure {
        fn becomes(&mut self, shard: usize, at: u64, live: u64) {
            let before = std::mem::replace(&mut self.live, live);
            self.logs[shard].add(at, before, live);
        }

        fn since(&self, since: u64) -> Option<Curve> {
            self.coarse(since, MAX_SAMPLES)
        }

        fn coarse(&self, since: u64, most: usize) -> Option<Curve> {
            let now = Counted {
                live: self.live,
                peak: 0,
            };
            curve(OF, &self.logs, since, most, now)
        }
    }

    fn values(curve: &Curve) -> Vec<(u64, u64)> {
        curve.samples.iter().map(|it| (it.at, it.most)).collect()
    }

    #[test]
    fn a_short_curve_has_every_step() {
        let mut figure = Figure {
            live: 5,
            ..Figure::default()
        };
        figure.becomes(0, 10, 8);
        figure.becomes(0, 11, 3);
        figure.becomes(0, 15, 9);
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
            // An address belongs to one shard or the other.
            figure.becomes(usize::from(at % 3 == 0), at, live);
            assert!(
                figure
                    .logs
                    .iter()
                    .all(|log| log.samples.len() <= MAX_SAMPLES)
            );
        }
        let curve = figure.since(0).expect("a curve");
        assert!(curve.samples.len() <= MAX_SAMPLES, "{curve:?}");
        assert!(curve.samples.len() >= MAX_SAMPLES / 2 - 1, "{curve:?}");
        let longest = curve.samples.iter().map(|it| it.until - it.at).max();
        assert!(longest < Some(1 << 14), "{curve:?}");
        let holding = |at: u64| -> Sample {
            let mut all = curve.samples.iter();
            let found = all.find(|it| (it.at..=it.until).contains(&at));
            *found.expect("no gap")
        };
        assert_eq!(holding(654_321).most, 1_000);
        assert_eq!(holding(777_777).least, 1);
        let most = curve.samples.iter().map(|it| it.most).max();
        assert_eq!(most, Some(1_000));
        let curve = figure.coarse(0, 16).expect("a curve");
        assert!((8..=16).contains(&curve.samples.len()), "{curve:?}");
        let most = curve.samples.iter().map(|it| it.most).max();
        assert_eq!(most, Some(1_000));
    }

    #[test]
    fn the_logs_of_two_shards_are_one_curve() {
        let mut figure = Figure {
            live: 100,
            ..Figure::default()
        };
        figure.becomes(0, 1, 110);
        figure.becomes(1, 2, 115);
        figure.becomes(0, 4, 105);
        figure.becomes(1, 6, 100);
        let curve = figure.since(0).expect("a curve");
        assert_eq!(curve.start, 100);
        assert_eq!(values(&curve), [(1, 110), (2, 115), (4, 105), (6, 100)]);
    }

    #[test]
    fn a_curve_ends_at_the_current_value_even_if_events_were_applied_out_of_order() {
        let mut figure = Figure::default();
        figure.becomes(1, 2, 5);
        figure.becomes(0, 1, 15);
        let curve = figure.since(0).expect("a curve");
        let last = curve.samples.last().expect("samples");
        assert_eq!((last.least, last.most, last.last), (5, 15, 15));
    }

    #[test]
    fn logs_that_are_full_one_after_the_other_are_joined() {
        let mut figure = Figure::default();
        for at in 1..=200_000 {
            figure.becomes(usize::from(at > 100_000), at, at);
        }
        let curve = figure.since(0).expect("a curve");
        assert!((64..=MAX_SAMPLES).contains(&curve.samples.len()));
        assert_eq!((curve.samples[0].at, curve.samples[0].least), (1, 1));
    }
}
