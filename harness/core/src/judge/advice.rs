//! What would let a failing check pass, where what it left is meant to stay. Each piece of advice is
//! tried against the judgement itself: none is given that would not help.

use std::collections::BTreeMap;

use super::input::CheckInput;
use super::{CheckResult, judge};
use crate::report::{CheckStatus, Confirmation, Finding, FindingKind, MeantToStay};
use crate::suppressions::{Pattern, Suppression};
use crate::units::total;

/// The options with which the check would have passed; none where its findings are not of a sort that
/// may stay, or where no options that this knows of are enough.
///
/// Changes the facts while it tries, and leaves them as they were.
pub fn meant_to_stay(input: &mut CheckInput, result: &CheckResult) -> Option<MeantToStay> {
    let stays = [FindingKind::Leaked, FindingKind::Retained].map(CheckStatus::Found);
    if !stays.contains(&result.status) {
        return None;
    }
    let leaked: Vec<_> = failing(result, FindingKind::Leaked).collect();
    let candidates = match leaked.is_empty() {
        true => [Some(MeantToStay::default()), None],
        false => [by_function(&leaked), by_tolerance(&leaked)],
    };
    candidates
        .into_iter()
        .flatten()
        .find_map(|advice| enough(input, advice))
}

/// `advice`, with a tolerance of the reserve that it leaves, if the check passes by it.
fn enough(input: &mut CheckInput, mut advice: MeantToStay) -> Option<MeantToStay> {
    let with_it = judge_with(input, &advice);
    if !with_it.status.is_failure() {
        return Some(advice);
    }
    advice.reserved_tolerance =
        largest_sum(&failing(&with_it, FindingKind::Retained).collect::<Vec<_>>())?;
    let passes = !judge_with(input, &advice).status.is_failure();
    passes.then_some(advice)
}

/// What the check comes to with these options.
fn judge_with(input: &mut CheckInput, advice: &MeantToStay) -> CheckResult {
    let before = input.facts;
    let facts = &mut input.facts;
    facts.tolerance = facts.tolerance.max(advice.tolerance);
    facts.reserved_tolerance = facts.reserved_tolerance.max(advice.reserved_tolerance);
    if let Some(function) = &advice.allow {
        let allow = Suppression::of_pattern(Pattern::Function(function.clone()));
        input.suppressions.insert(0, allow);
    }
    let result = judge(input);
    input.facts = before;
    if advice.allow.is_some() {
        input.suppressions.remove(0);
    }
    result
}

/// An entry for the function that all of these come from.
fn by_function(leaked: &[&Finding]) -> Option<MeantToStay> {
    Finding::common_function(leaked).map(MeantToStay::allow)
}

/// A tolerance holds per device and layer, and covers nothing without bytes.
fn by_tolerance(leaked: &[&Finding]) -> Option<MeantToStay> {
    let tolerance = largest_sum(leaked)?;
    Some(MeantToStay {
        tolerance,
        ..MeantToStay::default()
    })
}

fn failing(result: &CheckResult, kind: FindingKind) -> impl Iterator<Item = &Finding> {
    let findings = result.findings.iter();
    findings.filter(move |finding| finding.kind == kind && finding.is_failure())
}

/// The most bytes that any layer has of `findings` at one place.
fn largest_sum(findings: &[&Finding]) -> Option<u64> {
    let mut sums: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for finding in findings {
        let in_the_last_run = match finding.confirmed {
            Some(Confirmation::Repeated { bytes, .. }) => bytes,
            _ => 0,
        };
        let of_layer = sums
            .entry((finding.layer, finding.place, finding.pool))
            .or_default();
        of_layer.push(finding.bytes.max(in_the_last_run));
    }
    let largest = sums.into_values().map(total).max()?;
    (largest != 0).then_some(largest)
}
