//! The tolerance: bytes of a layer that may stay at a place.
//!
//! If the findings of a layer and place add up to at most the tolerance in every run, all of them
//! are removed. Otherwise, all of them are reported, and nothing is subtracted. One-time set-up is
//! added up separately. Handles have no bytes, so no tolerance covers them.
//!
//! Two other rules use the same option: `sums.rs`, for a sum that other code in the process could
//! have changed, and `reserve.rs`, for the reserve of an allocator whose blocks are not reported.

use std::collections::BTreeMap;

use super::finding::Found;
use crate::ledger::{Layer, Place};
use crate::report::{Finding, FindingKind};
use crate::units::exact_size;

/// The kinds of findings that fail a test.
const STAYS: &[FindingKind] = &[FindingKind::Leaked, FindingKind::Grew];
/// One-time set-up, which fails no test.
const ONCE: &[FindingKind] = &[FindingKind::FirstUse];

/// Removes the findings of each layer and place whose sum is at most `tolerance` bytes in every
/// run. Returns notes about the removed findings and about the remaining ones.
pub(crate) fn tolerate(tolerance: u64, found: &mut Vec<Found>) -> Vec<String> {
    if tolerance == 0 {
        return Vec::new();
    }
    let limit = exact_size(tolerance);
    let mut notes = Vec::new();
    for kinds in [STAYS, ONCE] {
        let sums = largest_sums(found, kinds);
        found.retain(|it| !is_meant(it, kinds) || sums[&key(&it.finding)] > tolerance);
        for ((layer, place), bytes) in sums {
            let stayed = exact_size(bytes);
            if bytes <= tolerance {
                notes.push(format!(
                    "{stayed} remained allocated, within the tolerance of {limit}"
                ));
            } else if kinds == STAYS {
                notes.push(format!(
                    "{stayed} of {layer} memory on {place} remained allocated, more than the \
                     tolerance of {limit}"
                ));
            }
        }
    }
    notes
}

/// Returns the bytes of findings of these kinds by layer and place, in the run with the most bytes.
fn largest_sums(found: &[Found], kinds: &[FindingKind]) -> BTreeMap<(Layer, Place), u64> {
    let runs = found.iter().map(|found| found.charged.len()).max();
    let mut largest: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
    for run in 0..runs.unwrap_or(0) {
        let mut of_run: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
        for found in found.iter().filter(|it| is_meant(it, kinds)) {
            let sum = of_run.entry(key(&found.finding)).or_default();
            *sum = sum.saturating_add(found.charged_in(run));
        }
        for (key, bytes) in of_run {
            let most = largest.entry(key).or_default();
            *most = bytes.max(*most);
        }
    }
    largest
}

/// Whether a finding has one of these kinds and is only about bytes.
fn is_meant(found: &Found, kinds: &[FindingKind]) -> bool {
    let finding = &found.finding;
    kinds.contains(&finding.kind) && finding.bytes != 0 && !found.includes_others
}

fn key(finding: &Finding) -> (Layer, Place) {
    (finding.layer, finding.place)
}

#[cfg(test)]
mod tests {
    use super::tolerate;
    use crate::judge::finding::{Found, of_sum};
    use crate::ledger::{Layer, Place};
    use crate::report::FindingKind;

    fn leaked(place: Place, bytes: u64) -> Found {
        Found::sum(of_sum(FindingKind::Leaked, Layer::DRIVER, place, bytes))
    }

    #[test]
    fn the_limit_is_inclusive_and_holds_for_each_place_by_itself() {
        let all = || {
            vec![
                leaked(Place::cuda(0), 60),
                leaked(Place::cuda(0), 40),
                leaked(Place::cuda(1), 101),
                leaked(Place::cuda(0), 0),
                Found {
                    includes_others: true,
                    ..leaked(Place::cuda(2), 2)
                },
            ]
        };
        let bytes = |found: &[Found]| -> Vec<u64> {
            found.iter().map(|found| found.finding.bytes).collect()
        };
        let mut found = all();
        assert_eq!(tolerate(100, &mut found).len(), 2);
        assert_eq!(bytes(&found), [101, 0, 2]);
        let mut found = all();
        assert_eq!(tolerate(99, &mut found).len(), 2);
        assert_eq!(bytes(&found), [60, 40, 101, 0, 2]);
    }
}
