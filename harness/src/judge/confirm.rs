//! What a second run of the body says of the findings of the first.

use serde::{Deserialize, Serialize};

use super::held::Held;

/// What the second run of the body showed of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// How many more were left.
    pub count: u64,
    /// How many more bytes.
    pub bytes: u64,
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

/// Compares two runs.
///
/// What the second run left again is confirmed. Where it left less, the difference was one-time
/// set-up and becomes a finding of its own, so that the confirmed figure is what each run loses.
pub(crate) fn confirm(first: Vec<Held>, second: &[Held]) -> Vec<Confirmed> {
    let mut results = Vec::new();
    for held in first {
        let again = second.iter().find(|other| other.key == held.key);
        let (count, bytes) = again.map_or((0, 0), |again| (again.count, again.bytes));
        let second = Some(Confirmation { count, bytes });
        if count == 0 {
            results.push(Confirmed {
                held,
                second,
                first_use: true,
            });
        } else if count < held.count && bytes <= held.bytes {
            let mut once = held.clone();
            once.count -= count;
            once.bytes -= bytes;
            let mut each_time = held;
            (each_time.count, each_time.bytes) = (count, bytes);
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

#[cfg(test)]
mod tests {
    use super::{Confirmation, Held, confirm};
    use crate::judge::{HeldKey, What};
    use crate::ledger::{Kind, Layer, Place, StackId};

    fn held(stack: u32, count: u64) -> Held {
        let key = HeldKey {
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            what: What::Live(Kind::Linear),
            stack: StackId(stack),
        };
        let mut held = Held::new(key);
        (0..count).for_each(|_| held.add(8));
        held
    }

    fn run(first: Vec<Held>, second: Vec<Held>) -> Vec<(u64, bool, Option<Confirmation>)> {
        let all = confirm(first, &second);
        all.into_iter()
            .map(|c| (c.held.count, c.first_use, c.second))
            .collect()
    }

    #[test]
    fn what_does_not_repeat_is_first_use() {
        let none = Some(Confirmation { count: 0, bytes: 0 });
        assert_eq!(run(vec![held(1, 2)], vec![held(2, 2)]), [(2, true, none)]);
    }

    #[test]
    fn what_repeats_is_confirmed_and_the_rest_is_first_use() {
        let two = Some(Confirmation {
            count: 2,
            bytes: 16,
        });
        assert_eq!(run(vec![held(1, 2)], vec![held(1, 2)]), [(2, false, two)]);
        assert_eq!(
            run(vec![held(1, 3)], vec![held(1, 2)]),
            [(2, false, two), (1, true, None)]
        );
    }

    #[test]
    fn a_leak_that_grows_is_confirmed_with_the_first_run_s_figure() {
        let two = Some(Confirmation {
            count: 2,
            bytes: 16,
        });
        assert_eq!(run(vec![held(1, 1)], vec![held(1, 2)]), [(1, false, two)]);
    }
}
