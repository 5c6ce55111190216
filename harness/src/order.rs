//! Putting lists in order, by one sort for all of them.
//!
//! std's sorts are compiled for each type and each order anew. Forty of them were a fifth of this
//! crate's machine code, which every user's first build waits for.

use std::cmp::Ordering;

/// Puts `items` in their own order.
pub(crate) fn natural<T: Ord>(items: &mut [T]) {
    by(items, T::cmp);
}

/// Puts `items` in the order of their keys; those with the same one keep their order.
pub(crate) fn by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    by(items, |one, other| key(one).cmp(&key(other)));
}

/// Puts `items` in the order that `compare` says; equal ones keep theirs.
pub(crate) fn by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let compare = |one: usize, other: usize| compare(&items[one], &items[other]);
    for (one, other) in swaps(items.len(), &compare) {
        items.swap(one, other);
    }
}

/// What to swap, one after the other, so that `count` items are in order; `compare` is told their
/// places.
fn swaps(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut sorted: Vec<usize> = (0..count).collect();
    sorted.sort_by(|one, other| compare(*one, *other));
    let mut goes_to = vec![0; count];
    for (place, item) in sorted.into_iter().enumerate() {
        goes_to[item] = place;
    }
    let mut swaps = Vec::new();
    for place in 0..count {
        // Each swap brings one item where it belongs.
        while goes_to[place] != place {
            let other = goes_to[place];
            swaps.push((place, other));
            goes_to.swap(place, other);
        }
    }
    swaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{by, by_key, natural};

    proptest! {
        #[test]
        fn the_order_is_that_of_std(numbers in proptest::collection::vec((0_u8..9, 0_u16..), 0..99)) {
            let (mut ours, mut theirs) = (numbers.clone(), numbers.clone());
            by_key(&mut ours, |item| item.0);
            theirs.sort_by_key(|item| item.0);
            prop_assert_eq!(&ours, &theirs);
            by(&mut ours, |one, other| other.1.cmp(&one.1));
            theirs.sort_by_key(|item| std::cmp::Reverse(item.1));
            prop_assert_eq!(&ours, &theirs);
            natural(&mut ours);
            theirs.sort();
            prop_assert_eq!(ours, theirs);
        }
    }
}
