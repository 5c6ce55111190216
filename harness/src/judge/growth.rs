//! What every round of a body leaves more of.

use super::held::{Held, What};

/// What one place of the program held after a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    /// How many.
    pub(crate) count: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
}

/// What holds more after each round than before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grown {
    /// As it was after the last round.
    pub(crate) held: Held,
    /// After each round.
    pub(crate) levels: Vec<Level>,
}

/// What has grown in every one of these rounds. Each is what all rounds up to it have left: what a
/// later round gives back is no growth, and what is made once is none either.
pub(crate) fn growth(rounds: &[Vec<Held>]) -> Vec<Grown> {
    let Some(last) = rounds.last() else {
        return Vec::new();
    };
    let candidates = last.iter().filter(|held| !is_an_incident(held));
    let grown = candidates.filter_map(|held| {
        let levels: Vec<_> = rounds.iter().map(|round| level(round, held)).collect();
        let mut before = Level::default();
        let gains_always = levels.iter().all(|level| {
            let gains = level.count > before.count || level.bytes > before.bytes;
            before = *level;
            gains
        });
        let held = held.clone();
        gains_always.then_some(Grown { held, levels })
    });
    grown.collect()
}

/// What went wrong rather than stayed: told whether it grows or not.
pub(crate) fn is_an_incident(held: &Held) -> bool {
    matches!(held.key.what, What::FailedFree { .. })
}

fn level(round: &[Held], held: &Held) -> Level {
    let same = round.iter().find(|other| other.key == held.key);
    same.map_or(Level::default(), |held| Level {
        count: held.count,
        bytes: held.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::{Held, growth};
    use crate::judge::held::taken_at as held;

    /// The stacks that grow; a round is its stacks and their counts.
    fn grown(rounds: &[&[(u32, u64)]]) -> Vec<(u32, Vec<u64>)> {
        let round = |round: &&[(u32, u64)]| round.iter().map(|(s, n)| held(*s, *n)).collect();
        let rounds: Vec<Vec<Held>> = rounds.iter().map(round).collect();
        let all = growth(&rounds);
        all.into_iter()
            .map(|grown| {
                let counts = grown.levels.iter().map(|level| level.count).collect();
                (grown.held.key.stack.0, counts)
            })
            .collect()
    }

    #[test]
    fn only_what_gains_in_every_round_grows() {
        assert_eq!(
            grown(&[&[(1, 1), (2, 3)], &[(1, 2), (2, 3)], &[(1, 3), (2, 4)]]),
            [(1, vec![1, 2, 3])]
        );
    }

    #[test]
    fn a_cache_that_is_filled_once_drops_out() {
        assert_eq!(grown(&[&[(1, 5)], &[(1, 5)]]), []);
        assert_eq!(grown(&[&[], &[(1, 5)]]), [], "filled by the second round");
    }

    #[test]
    fn what_is_replaced_in_each_round_does_not_grow() {
        assert_eq!(grown(&[&[(1, 1)], &[(1, 1)], &[(1, 1)]]), []);
    }

    #[test]
    fn without_rounds_nothing_grows() {
        assert_eq!(grown(&[]), []);
    }
}
