//! What grows from one snapshot to the next.

use std::collections::VecDeque;

use super::living::{self, Living};
use crate::judge::{Amount, Held, HeldKey};
use crate::ledger::Place;

/// How many snapshots in a row something must gain in. Three or four a program passes by chance
/// while it sets itself up.
pub(super) const ENOUGH: usize = 5;

/// What is followed: a site, or the segments of a caching allocator, which takes the next one
/// wherever it happens to need it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Followed {
    Site(HeldKey),
    Allocator(&'static str, Place),
}

#[derive(Debug)]
struct Line {
    what: Followed,
    /// The last ones, the oldest first.
    levels: VecDeque<Amount>,
    /// As of the last snapshot at which there was any.
    held: Held,
}

/// Something that grew.
#[derive(Debug)]
pub(super) struct Grown<'a> {
    what: &'a Followed,
    pub(super) held: Held,
    pub(super) levels: Vec<Amount>,
}

impl Grown<'_> {
    /// Whether it tells of `held` already.
    pub(super) fn is(&self, held: &Held) -> bool {
        *self.what == Followed::Site(held.key.clone())
    }
}

/// The snapshots so far.
#[derive(Debug, Default)]
pub(super) struct Trend {
    count: u64,
    lines: Vec<Line>,
}

impl Trend {
    /// How many snapshots there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes one in.
    pub(super) fn add(&mut self, living: &Living) {
        let mut now: Vec<(Followed, Held)> = Vec::new();
        for held in &living.held {
            let what = match living::allocator(held) {
                Some((name, _)) => Followed::Allocator(name, held.key.place),
                None => Followed::Site(held.key.clone()),
            };
            match now.iter_mut().find(|(known, _)| *known == what) {
                Some((_, known)) => absorb(known, held),
                None => now.push((what, held.clone())),
            }
        }
        self.count += 1;
        for line in &mut self.lines {
            let at = now.iter().position(|(what, _)| *what == line.what);
            let held = at.map(|at| now.swap_remove(at).1);
            line.push(held);
        }
        self.lines.extend(now.into_iter().map(|(what, held)| {
            let mut line = Line {
                what,
                levels: VecDeque::new(),
                held: held.clone(),
            };
            line.push(Some(held));
            line
        }));
    }

    /// What gained in each of the last snapshots.
    pub(super) fn growing(&self) -> Vec<Grown<'_>> {
        let growing = self.lines.iter().filter(|line| line.grows());
        growing
            .map(|line| Grown {
                what: &line.what,
                held: line.told(),
                levels: line.levels.iter().copied().collect(),
            })
            .collect()
    }
}

impl Line {
    fn push(&mut self, held: Option<Held>) {
        let level = held.as_ref().map_or(Amount::default(), |held| Amount {
            count: held.count,
            bytes: held.bytes,
        });
        if let Some(held) = held {
            self.held = held;
        }
        if self.levels.len() == ENOUGH {
            self.levels.pop_front();
        }
        self.levels.push_back(level);
    }

    fn grows(&self) -> bool {
        let pairs = || self.levels.iter().zip(self.levels.iter().skip(1));
        let gains = |of: fn(&Amount) -> u64| pairs().all(|(before, after)| of(after) > of(before));
        self.levels.len() == ENOUGH && (gains(|level| level.count) || gains(|level| level.bytes))
    }

    fn told(&self) -> Held {
        let mut held = self.held.clone();
        if let Followed::Allocator(name, _) = self.what {
            held.notes.push(format!(
                "all that {name} holds; the place is that of most of it"
            ));
        }
        held
    }
}

/// Adds `other` to `known`, which has the site of the larger one.
fn absorb(known: &mut Held, other: &Held) {
    if other.bytes > known.bytes {
        let smaller = std::mem::replace(known, other.clone());
        known.absorb(smaller);
    } else {
        known.absorb(other.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{Amount, ENOUGH, Living, Trend};
    use crate::judge::{Held, Reading, taken_at};

    fn with(trend: &mut Trend, held: Vec<Held>) {
        trend.add(&Living {
            held,
            reading: Reading::default(),
        });
    }

    /// What grows when the site has held so many at each snapshot.
    fn levels(counts: &[u64]) -> Option<Vec<u64>> {
        let mut trend = Trend::default();
        for count in counts {
            let held = (*count > 0).then(|| taken_at(1, *count));
            with(&mut trend, held.into_iter().collect());
        }
        let growing = trend.growing();
        let grown = growing.first()?;
        Some(grown.levels.iter().map(|level| level.count).collect())
    }

    #[test]
    fn what_gains_at_each_of_the_last_snapshots_grows() {
        assert_eq!(levels(&[1, 2, 3, 4, 5]), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(levels(&[9, 0, 2, 3, 4, 5, 9]), Some(vec![2, 3, 4, 5, 9]));
    }

    #[test]
    fn what_stands_still_once_or_is_too_young_does_not() {
        for counts in [
            &[1, 2, 3, 4][..],
            &[1, 2, 3, 3, 4],
            &[1, 2, 3, 4, 5, 5],
            &[5, 4, 3, 2, 1],
            &[0, 0, 0, 0, 0],
        ] {
            assert_eq!(levels(counts), None, "{counts:?}");
        }
    }

    #[test]
    fn what_is_new_is_followed_from_its_first_snapshot_on() {
        let mut trend = Trend::default();
        with(&mut trend, Vec::new());
        for count in 1..=ENOUGH as u64 {
            with(&mut trend, vec![taken_at(7, 3), taken_at(1, count)]);
        }
        let growing = trend.growing();
        assert_eq!(growing.len(), 1, "{growing:?}");
        assert_eq!(growing[0].levels[0], Amount { count: 1, bytes: 8 });
        assert_eq!(growing[0].held, taken_at(1, ENOUGH as u64));
    }
}
