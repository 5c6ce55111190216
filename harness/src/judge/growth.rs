//! What every round of a body leaves more of.

use super::held::{Held, What};

/// What one place of the program held after a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
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
    pub(crate) levels: Vec<Amount>,
}

/// What has grown in every one of these rounds. Each level is what all rounds up to it have left:
/// what a later round gives back is no growth, and what is made once is none either.
pub(crate) fn growth(rounds: &[Vec<Held>]) -> Vec<Grown> {
    let Some(last) = rounds.last() else {
        return Vec::new();
    };
    let candidates = last.iter().filter(|held| !is_an_incident(held));
    let grown = candidates.filter_map(|held| {
        let levels = levels(rounds, held);
        let mut before = Amount::default();
        let gains_always = levels.iter().all(|level| {
            let gains = level.count > before.count || level.bytes > before.bytes;
            before = *level;
            gains
        });
        let mut held = held.clone();
        let is_exact = |each: &u64| each.checked_mul(before.count) == Some(before.bytes);
        (held.count, held.bytes) = (before.count, before.bytes);
        held.each = held.each.filter(is_exact);
        gains_always.then_some(Grown { held, levels })
    });
    grown.collect()
}

/// What went wrong rather than stayed: told whether it grows or not.
pub(crate) fn is_an_incident(held: &Held) -> bool {
    matches!(held.key.what, What::FailedFree { .. })
}

/// After each round, what is under the key of `held`.
///
/// What is live in a round is what was left since the first one began. All else is the round's own,
/// between two readings, and adds up.
fn levels(rounds: &[Vec<Held>], held: &Held) -> Vec<Amount> {
    let mut sum = Amount::default();
    let after = |round: &Vec<Held>| {
        let own = level(round, held);
        sum.count = sum.count.saturating_add(own.count);
        sum.bytes = sum.bytes.saturating_add(own.bytes);
        match held.key.what {
            What::Live(_) | What::FailedFree { .. } => own,
            What::EndedWithContext(..) => sum,
            // One figure, however many blocks it is of.
            What::HandedOut | What::Reserve(_) => Amount {
                bytes: sum.bytes,
                ..own
            },
        }
    };
    rounds.iter().map(after).collect()
}

fn level(round: &[Held], held: &Held) -> Amount {
    let same = round.iter().find(|other| other.key == held.key);
    same.map_or(Amount::default(), |held| Amount {
        count: held.count,
        bytes: held.bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::{Held, What, growth};
    use crate::judge::LevelName;
    use crate::judge::held::taken_at as held;
    use crate::ledger::event::ContextEnd;
    use crate::ledger::{Kind, PoolName};

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

    /// The levels of what each of these rounds has lost by itself, in bytes, where that grows.
    fn adds_up(what: &What, rounds: &[u64]) -> Option<Vec<(u64, u64)>> {
        let round = |bytes: &u64| {
            let mut held = held(1, 0);
            held.key.what = what.clone();
            held.add(*bytes);
            Vec::from_iter((*bytes != 0).then_some(held))
        };
        let rounds: Vec<_> = rounds.iter().map(round).collect();
        let [grown] = &growth(&rounds)[..] else {
            return None;
        };
        let levels = grown.levels.iter().map(|level| (level.count, level.bytes));
        let levels: Vec<_> = levels.collect();
        assert_eq!(levels.last(), Some(&(grown.held.count, grown.held.bytes)));
        Some(levels)
    }

    #[test]
    fn what_each_round_loses_by_itself_adds_up() {
        for sum in [
            What::HandedOut,
            What::Reserve(LevelName::Pool(PoolName::Default)),
        ] {
            let levels = Some(vec![(1, 8), (1, 16), (1, 24)]);
            assert_eq!(adds_up(&sum, &[8, 8, 8]), levels, "{sum:?}");
            assert_eq!(adds_up(&sum, &[8, 8, 0]), None);
            assert_eq!(adds_up(&sum, &[0, 8, 8]), None, "not by the first");
        }
        let ended = What::EndedWithContext(Kind::Linear, ContextEnd::Destroyed);
        assert_eq!(adds_up(&ended, &[8, 4]), Some(vec![(1, 8), (2, 12)]));
        assert_eq!(adds_up(&ended, &[8, 0, 8]), None);
    }

    #[test]
    fn without_rounds_nothing_grows() {
        assert_eq!(grown(&[]), []);
    }
}
