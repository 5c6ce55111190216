//! What a second run of the body says of the findings of the first.

use serde::{Deserialize, Serialize};

use super::held::{Held, What};

/// What further runs of the body showed of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Confirmation {
    /// The body could not be run again: nobody knows whether each run leaves it.
    NotRepeatable,
    /// In how many of its runs the body left it.
    // serde wants what has no name of its own at the end.
    #[serde(untagged)]
    Repeated {
        /// In how many runs.
        runs: u32,
        /// Of how many that there were.
        of: u32,
        /// How many more the last run left.
        count: u64,
        /// How many more bytes.
        bytes: u64,
    },
}

impl Confirmation {
    /// What the second of two runs left more, the first having left it too.
    #[must_use]
    pub const fn by_second_run(count: u64, bytes: u64) -> Self {
        Self::Repeated {
            runs: 2,
            of: 2,
            count,
            bytes,
        }
    }
}

/// A finding of the first run in the light of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// What the first run left.
    pub(crate) held: Held,
    /// What the second run left at the same place; none where no second run was made.
    pub(crate) second: Option<Confirmation>,
    /// Whether it is one-time set-up: made once, kept, not made again.
    pub(crate) first_use: bool,
}

impl Confirmed {
    /// What no second run was made for, or has a say in.
    pub(crate) const fn unconfirmed(held: Held) -> Self {
        Self {
            held,
            second: None,
            first_use: false,
        }
    }
}

/// What a second run has left more, of `both` runs' leftovers together: a run that gives back what
/// the first left, and keeps its own instead, loses nothing, by whichever way it came to the same
/// line. What is not live was the second's alone.
pub(crate) fn gained(
    first: &[Held],
    both: Vec<Held>,
    is_same_line: impl Fn(&Held, &Held) -> bool,
) -> Vec<Held> {
    let is_live = |held: &&Held| matches!(held.key.what, What::Live(_));
    let mut before: Vec<Held> = first.iter().filter(is_live).cloned().collect();
    let mut after = both;
    // A line is costly to find: only for what is left when each place has met itself.
    for at_one_line in [false, true] {
        for old in &mut before {
            for new in &mut after {
                if is_something(old)
                    && is_something(new)
                    && (old.key == new.key || (at_one_line && is_same_line(old, new)))
                {
                    cancel(&mut old.count, &mut new.count);
                    cancel(&mut old.bytes, &mut new.bytes);
                }
            }
        }
    }
    after.retain(is_something);
    for held in &mut after {
        // One that was replaced by a larger one.
        held.count = held.count.max(1);
    }
    after
}

fn is_something(held: &Held) -> bool {
    held.count != 0 || held.bytes != 0
}

/// Takes from both what both have.
fn cancel(one: &mut u64, other: &mut u64) {
    let common = (*one).min(*other);
    *one -= common;
    *other -= common;
}

/// Compares two runs.
///
/// What the second run left again is confirmed. Where it left less, the difference was one-time
/// set-up and becomes a finding of its own, so that the confirmed figure is what each run loses.
pub(crate) fn confirm(first: Vec<Held>, second: &[Held]) -> Vec<Confirmed> {
    let mut results = Vec::new();
    for held in first {
        let again = second.iter().find(|other| other.key == held.key);
        let (count, bytes) = again.map_or((0, 0), |again| (again.count, again.bytes));
        let second = Some(Confirmation::by_second_run(count, bytes));
        if count == 0 {
            results.push(Confirmed {
                held,
                second,
                first_use: true,
            });
        } else if fewer(&held, count, bytes) {
            let mut once = held.clone();
            once.count = held.count.saturating_sub(count).max(1);
            once.bytes -= bytes;
            // None of these was given back.
            once.taken = once.count;
            let mut each_time = held;
            (each_time.count, each_time.bytes) = (count, bytes);
            each_time.taken = each_time.taken.saturating_sub(once.count);
            results.push(Confirmed {
                held: each_time,
                second,
                first_use: false,
            });
            results.push(Confirmed {
                held: once,
                second: None,
                first_use: true,
            });
        } else {
            results.push(Confirmed {
                held,
                second,
                first_use: false,
            });
        }
    }
    results
}

/// Whether a run that left `count` and `bytes` again left less than `held`. A sum is always one.
fn fewer(held: &Held, count: u64, bytes: u64) -> bool {
    match held.key.what {
        What::HandedOut => bytes < held.bytes,
        _ => count < held.count && bytes <= held.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::{Confirmation, Held, confirm, gained};
    use crate::judge::What;
    use crate::judge::held::taken_at as held;

    fn run(first: Vec<Held>, second: Vec<Held>) -> Vec<(u64, bool, Option<Confirmation>)> {
        let all = confirm(first, &second);
        all.into_iter()
            .map(|c| (c.held.count, c.first_use, c.second))
            .collect()
    }

    #[test]
    fn what_does_not_repeat_is_first_use() {
        let none = Some(Confirmation::by_second_run(0, 0));
        assert_eq!(run(vec![held(1, 2)], vec![held(2, 2)]), [(2, true, none)]);
    }

    #[test]
    fn what_repeats_is_confirmed_and_the_rest_is_first_use() {
        let two = Some(Confirmation::by_second_run(2, 16));
        assert_eq!(run(vec![held(1, 2)], vec![held(1, 2)]), [(2, false, two)]);
        assert_eq!(
            run(vec![held(1, 3)], vec![held(1, 2)]),
            [(2, false, two), (1, true, None)]
        );
    }

    #[test]
    fn what_no_run_gave_back_is_not_told_as_given_back() {
        let first = |taken| {
            let mut held = held(1, 9);
            held.taken = taken;
            held
        };
        for given_back in [0, 3] {
            let all = confirm(vec![first(9 + given_back)], &[held(1, 7)]);
            let kept: Vec<_> = all
                .iter()
                .map(|it| (it.held.count, it.held.taken - it.held.count, it.first_use))
                .collect();
            assert_eq!(kept, [(7, given_back, false), (2, 0, true)]);
        }
    }

    /// The stack and count of what is gained, where stacks of one decade are of one line.
    fn gains(first: &[(u32, u64)], both: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let line = |held: &Held| held.key.stack.0 / 10;
        let all = |all: &[(u32, u64)]| -> Vec<Held> {
            let all = all.iter().map(|&(stack, count)| held(stack, count));
            all.collect()
        };
        let gained = gained(&all(first), all(both), |one, other| {
            line(one) == line(other)
        });
        let gained = gained.iter().map(|held| (held.key.stack.0, held.count));
        gained.collect()
    }

    #[test]
    fn what_the_second_run_only_replaces_is_no_gain() {
        let gained = gains(&[(10, 2), (20, 1)], &[(10, 2), (20, 3), (30, 1)]);
        assert_eq!(gained, [(20, 2), (30, 1)]);
    }

    #[test]
    fn what_it_replaces_by_another_way_to_the_line_is_no_gain() {
        assert_eq!(gains(&[(10, 1)], &[(11, 1)]), []);
        assert_eq!(gains(&[(10, 1), (11, 1)], &[(11, 2)]), []);
        // And what it leaves beside the first one is.
        assert_eq!(gains(&[(10, 1)], &[(10, 1), (11, 1)]), [(11, 1)]);
        assert_eq!(gains(&[(10, 2)], &[(11, 3)]), [(11, 1)]);
        assert_eq!(gains(&[(10, 1)], &[(20, 1)]), [(20, 1)]);
    }

    #[test]
    fn of_a_sum_the_bytes_that_do_not_repeat_are_first_use() {
        let sum = |bytes| {
            let mut held = held(1, 0);
            held.key.what = What::HandedOut;
            held.add(bytes);
            held
        };
        let all = confirm(vec![sum(100)], &[sum(60)]);
        let split: Vec<_> = all
            .iter()
            .map(|it| (it.held.count, it.held.bytes, it.first_use))
            .collect();
        assert_eq!(split, [(1, 60, false), (1, 40, true)]);
        assert_eq!(confirm(vec![sum(60)], &[sum(60)]).len(), 1);
    }

    #[test]
    fn a_leak_that_grows_is_confirmed_with_the_first_run_s_figure() {
        let two = Some(Confirmation::by_second_run(2, 16));
        assert_eq!(run(vec![held(1, 1)], vec![held(1, 2)]), [(1, false, two)]);
    }
}
