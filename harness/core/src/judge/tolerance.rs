//! The tolerance: bytes that may stay, subtracted once from the confirmed leaks.
//!
//! A tolerance applies per device and layer, and to each run separately. One-time set-up is covered
//! separately as well. Handles have no bytes, so no tolerance covers them.

use std::collections::BTreeMap;

use super::finding::Found;
use crate::ledger::{Layer, Place};
use crate::report::{Finding, FindingKind};
use crate::units::exact_size;

/// Removes the findings of each layer and place whose sum is at most `tolerance` bytes in every
/// run. Returns notes about them and about the others.
pub(crate) fn tolerate(tolerance: u64, found: &mut Vec<Found>) -> Vec<String> {
    if tolerance == 0 {
        return Vec::new();
    }
    let stays = |kind| matches!(kind, FindingKind::Leaked | FindingKind::Grew);
    let mut notes = Vec::new();
    let limit = exact_size(tolerance);
    for ((layer, place), bytes) in cover(tolerance, found, stays) {
        let stayed = exact_size(bytes);
        notes.push(match bytes <= tolerance {
            true => format!("{stayed} remained allocated, within the tolerance of {limit}"),
            false => format!(
                "{stayed} of {layer} memory on {place} remained allocated, more than the \
                 tolerance of {limit}"
            ),
        });
    }
    // One-time set-up fails no test, so no note is needed if it exceeds the tolerance.
    let once = cover(tolerance, found, |kind| kind == FindingKind::FirstUse);
    for bytes in once.into_values().filter(|bytes| *bytes <= tolerance) {
        let stayed = exact_size(bytes);
        notes.push(format!(
            "{stayed} remained allocated, within the tolerance of {limit}"
        ));
    }
    notes
}

/// Covers the findings of the kinds for which `is_meant` holds, and returns their sums.
fn cover(
    tolerance: u64,
    found: &mut Vec<Found>,
    is_meant: impl Fn(FindingKind) -> bool,
) -> BTreeMap<(Layer, Place), u64> {
    let is_covered = |finding: &Finding| is_meant(finding.kind) && finding.bytes != 0;
    let runs = found.iter().map(|found| found.charged.len()).max();
    let mut totals: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
    for run in 0..runs.unwrap_or(0) {
        let mut of_run: BTreeMap<(Layer, Place), u64> = BTreeMap::new();
        for found in found.iter().filter(|found| is_covered(&found.finding)) {
            let total = of_run.entry(key(&found.finding)).or_default();
            *total = total.saturating_add(found.charged_in(run));
        }
        for (key, bytes) in of_run {
            let most = totals.entry(key).or_default();
            *most = bytes.max(*most);
        }
    }
    found.retain(|found| !is_covered(&found.finding) || totals[&key(&found.finding)] > tolerance);
    totals
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
            ]
        };
        let bytes = |found: &[Found]| -> Vec<u64> {
            found.iter().map(|found| found.finding.bytes).collect()
        };
        let mut found = all();
        assert_eq!(tolerate(100, &mut found).len(), 2);
        assert_eq!(bytes(&found), [101, 0]);
        let mut found = all();
        assert_eq!(tolerate(99, &mut found).len(), 2);
        assert_eq!(bytes(&found), [60, 40, 101, 0]);
    }
}
