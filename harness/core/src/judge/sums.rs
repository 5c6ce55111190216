//! Sums of allocators that report none or only some of their blocks.
//!
//! A probe that reads how much memory its allocator has handed out knows neither the owner nor the
//! line. A rise beyond the reported blocks is a leak if nothing else could run during the check.
//! Otherwise, something else may have caused the rise. The check is then inconclusive and never
//! clean, and no other test fails because of the rise.

use super::finding::Found;
use super::input::{CheckInput, RunInput};
use super::rise::Rise;
use super::usage::{LayerName, LayerUsage};
use crate::ledger::Kind;
use crate::report::FindingKind;
use crate::units::exact_size;

/// Returns the findings about sums that rose in runs in which nothing else in the process could
/// have changed them.
pub(crate) fn findings(input: &CheckInput) -> Vec<Found> {
    judged(input)
        .filter_map(|rise| finding(&rise, input))
        .collect()
}

/// Returns how much each sum rose in the runs in which nothing else could have changed it.
fn judged(input: &CheckInput) -> impl Iterator<Item = Rise> {
    let runs = input.judged_runs();
    rises(input).into_iter().map(move |mut rise| {
        for (bytes, run) in rise.bytes.iter_mut().zip(runs) {
            if run.others.may_have_moved_sums() {
                *bytes = 0;
            }
        }
        rise
    })
}

/// Returns a sentence for each sum that rose beyond the tolerance while other code in the process
/// could have changed it.
pub(crate) fn shared(input: &CheckInput) -> Vec<String> {
    let runs = input.judged_runs();
    let rises = rises(input).into_iter();
    let shared = rises.filter_map(|rise| {
        let of_others = rise.bytes.iter().zip(runs);
        let of_others = of_others.filter(|(_, run)| run.others.may_have_moved_sums());
        let (bytes, run) = of_others.max_by_key(|(bytes, _)| **bytes)?;
        let others = match run.others.checks {
            true => "another check, which ran at the same time,",
            false => "another test, or a thread that an earlier test left,",
        };
        (*bytes > input.facts.tolerance).then(|| {
            format!(
                "{} has handed out {} more on {} than before the test, and no reported block \
                 shows who allocated it: the test may have leaked it, or {others} may have \
                 allocated it",
                rise.name,
                exact_size(*bytes),
                rise.place
            )
        })
    });
    shared.collect()
}

/// Whether only the second of two runs shows a rise, so that a third run must decide.
pub(crate) fn is_undecided(input: &CheckInput) -> bool {
    judged(input).any(|rise| rise.is_undecided())
}

fn finding(rise: &Rise, input: &CheckInput) -> Option<Found> {
    let mut found = rise.finding(FindingKind::Leaked, input)?;
    let finding = &mut found.finding;
    finding.resource = Some(Kind::Block);
    let ends = input.judged_runs().iter().map(|run| &run.end);
    let mut usages = ends.filter_map(|end| end.layer(&rise.name, rise.place));
    let name = finding.layer.allocator_name().unwrap_or_default();
    finding
        .notes
        .push(match usages.any(|usage| usage.reported.is_some()) {
            false => {
                format!(
                    "the probe of {name} reports only this total, without call sites or individual \
                     blocks"
                )
            }
            true => {
                format!("the probe of {name} counts more bytes than the reported blocks add up to")
            }
        });
    Some(found)
}

/// Whether any sum rose in a run.
pub(crate) fn rose(run: &RunInput) -> bool {
    run.end.layers.iter().any(|usage| risen(run, usage) != 0)
}

/// Returns every sum that rose in a judged run.
fn rises(input: &CheckInput) -> Vec<Rise> {
    Rise::all(input.judged_runs().iter(), risen)
}

/// Returns how much a sum rose in a run, excluding the reported blocks, which may be larger than
/// was requested, and the leaks for which a nested check has already failed.
fn risen(run: &RunInput, usage: &LayerUsage) -> u64 {
    if !matches!(usage.name, LayerName::Probe(_)) {
        return 0;
    }
    // Unreported memory is compared before and after, so that freeing a reported block does not
    // hide an unreported one.
    let more = run.baseline.rise_to(usage, LayerUsage::unreported);
    let failed = run.failed_for(usage, |sum| sum.allocated);
    // Blocks that other threads have not reported yet are not a rise. Either reading may be wrong
    // by their size.
    let before = run.baseline.layer(&usage.name, usage.place);
    let in_motion = match run.others.may_have_moved_sums() {
        true => before.map_or(0, |it| it.in_motion).max(usage.in_motion),
        false => 0,
    };
    let in_motion = in_motion.saturating_mul(2);
    match more.saturating_sub(failed.saturating_add(in_motion)) {
        rest if rest <= usage.rounding => 0,
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::findings;
    use crate::judge::input::{CheckInput, RunInput};
    use crate::judge::usage::{LayerName, LayerUsage, Usage};
    use crate::ledger::{Layer, Place};

    #[test]
    fn a_freed_reported_block_gives_no_credit_for_unreported_memory() {
        let usage = |allocated, reported| Usage {
            layers: vec![LayerUsage {
                name: LayerName::Probe(Layer::allocator("sums-partly")),
                place: Place::cuda(0),
                allocated,
                peak: None,
                reserved: None,
                reported: Some(reported),
                in_motion: 0,
                rounding: 0,
            }],
            ..Usage::default()
        };
        let run = RunInput {
            as_expected: true,
            baseline: usage(4096, 4096),
            end: usage(1000, 0),
            ..RunInput::default()
        };
        let input = CheckInput {
            runs: vec![run],
            ..CheckInput::default()
        };
        let found = findings(&input);
        let bytes: Vec<u64> = found.iter().map(|found| found.finding.bytes).collect();
        assert_eq!(bytes, [1000]);
    }
}
