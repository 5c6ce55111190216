//! Bytes that may stay.

use std::collections::{BTreeMap, HashMap};

use super::held::Held;
use crate::ledger::{Layer, Place};

/// Takes out, and returns, the findings of each layer and place whose bytes are at most `tolerance`
/// in all. Handles have no bytes and stay.
pub(crate) fn tolerate(tolerance: u64, held: &mut Vec<Held>) -> Vec<Held> {
    let mut totals = HashMap::new();
    for held in held.iter() {
        let total: &mut u64 = totals.entry((held.key.layer, held.key.place)).or_default();
        *total = total.saturating_add(held.bytes);
    }
    let within =
        |held: &mut Held| held.bytes != 0 && totals[&(held.key.layer, held.key.place)] <= tolerance;
    held.extract_if(.., within).collect()
}

/// What is more than a tolerance that the test states: layer, place and bytes.
pub(crate) fn exceeding(tolerance: u64, held: &[Held]) -> Vec<(Layer, Place, u64)> {
    if tolerance == 0 {
        return Vec::new();
    }
    let mut totals = BTreeMap::new();
    for held in held {
        let total: &mut u64 = totals.entry((held.key.layer, held.key.place)).or_default();
        *total = total.saturating_add(held.bytes);
    }
    let over = totals.into_iter().filter(|(_, bytes)| *bytes > tolerance);
    over.map(|((layer, place), bytes)| (layer, place, bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Held, exceeding, tolerate};
    use crate::judge::{HeldKey, What};
    use crate::ledger::{Kind, Layer, Place, StackId};

    fn held(kind: Kind, place: Place, bytes: u64) -> Held {
        let what = What::Live(kind);
        let mut held = Held::new(HeldKey {
            layer: Layer::DRIVER,
            place,
            what,
            stack: StackId(1),
        });
        held.add(bytes);
        held
    }

    #[test]
    fn the_limit_is_inclusive_and_holds_for_each_place_by_itself() {
        let all = [
            held(Kind::Linear, Place::cuda(0), 60),
            held(Kind::Pitched, Place::cuda(0), 40),
            held(Kind::Linear, Place::cuda(1), 101),
            held(Kind::Stream, Place::cuda(0), 0),
        ];
        let mut left = all.to_vec();
        assert_eq!(tolerate(100, &mut left), all[..2]);
        assert_eq!(left, all[2..]);
        let mut left = all.to_vec();
        assert!(tolerate(99, &mut left).is_empty());
        assert_eq!(left, all);
    }

    #[test]
    fn a_stated_tolerance_that_was_not_enough_is_told() {
        let all = [
            held(Kind::Linear, Place::cuda(0), 60),
            held(Kind::Pitched, Place::cuda(0), 41),
            held(Kind::Linear, Place::cuda(1), 100),
        ];
        let over = (Layer::DRIVER, Place::cuda(0), 101);
        assert_eq!(exceeding(100, &all), [over]);
        assert!(exceeding(101, &all).is_empty());
        assert!(exceeding(0, &all).is_empty(), "nobody stated one");
    }
}
