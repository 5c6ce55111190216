//! Finds options with which a failing check would pass, in case its leaks are intended. For each
//! candidate, the check is judged again, so the advice always works.

use std::collections::BTreeMap;

use super::input::CheckInput;
use super::suppressions::{Pattern, PatternKind, Suppression};
use super::{CheckResult, judge};
use crate::report::{
    CheckStatus, Confirmation, Finding, FindingKind, MeantToStay, Site, is_of_test,
};
use crate::units::total;

/// Returns the options with which the check would have passed, or `None` if its findings cannot be
/// allowed or no known option is enough.
///
/// This function changes the facts of `input` while it tries options, and restores them afterwards.
pub fn meant_to_stay(input: &mut CheckInput, result: &CheckResult) -> Option<MeantToStay> {
    let stays = [FindingKind::Leaked, FindingKind::Retained].map(CheckStatus::Found);
    if !stays.contains(&result.status) {
        return None;
    }
    let leaked: Vec<_> = failing(result, FindingKind::Leaked).collect();
    let candidates = match leaked.is_empty() {
        true => [Some(MeantToStay::default()), None],
        false => [
            specific_function(&leaked, input).map(MeantToStay::allow),
            // A tolerance applies per device and layer, and covers only bytes.
            largest_sum(&leaked).map(|tolerance| MeantToStay {
                tolerance,
                ..MeantToStay::default()
            }),
        ],
    };
    candidates
        .into_iter()
        .flatten()
        .find_map(|advice| enough(input, advice))
}

/// Returns the innermost function of the program through which all of these leaks, but none of the
/// freed resources, were allocated. If there is none, returns the innermost function common to the
/// leaks that does more than wrap a call to the API.
fn specific_function<'a>(leaked: &[&'a Finding], input: &CheckInput) -> Option<&'a str> {
    let mut functions = Finding::common_functions(leaked);
    let line = *functions.first()?;
    let is_wrapper = leaked.iter().any(|finding| finding.site.calls_the_api());
    functions.retain(|it| {
        let is_closure_or_test = it.contains('{') || is_of_test(it, &input.subject.test);
        if *it == line {
            !is_wrapper
        } else {
            !is_closure_or_test
        }
    });
    let freed = input.judged_runs().iter().flat_map(|run| &run.freed_of_run);
    let freed: Vec<_> = freed
        .map(|it| input.names.site(it.allocated, it.kind))
        .collect();
    let is_specific = |function: &&&str| {
        let mut of_freed = freed.iter().flat_map(Site::users_functions);
        of_freed.all(|it| it != **function)
    };
    let specific = functions.iter().find(is_specific);
    Some(specific.or(functions.first()).copied().unwrap_or(line))
}

/// Returns `advice`, plus a tolerance for the remaining reserve, if the check passes with it.
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

/// Judges the check with these options.
fn judge_with(input: &mut CheckInput, advice: &MeantToStay) -> CheckResult {
    let before = input.facts;
    let facts = &mut input.facts;
    facts.tolerance = facts.tolerance.max(advice.tolerance);
    facts.reserved_tolerance = facts.reserved_tolerance.max(advice.reserved_tolerance);
    if let Some(function) = &advice.allow {
        let allow = Suppression::of_pattern(Pattern {
            kind: PatternKind::Function,
            text: function.clone(),
        });
        input.suppressions.insert(0, allow);
    }
    let result = judge(input);
    input.facts = before;
    if advice.allow.is_some() {
        input.suppressions.remove(0);
    }
    result
}

fn failing(result: &CheckResult, kind: FindingKind) -> impl Iterator<Item = &Finding> {
    let findings = result.findings.iter();
    findings.filter(move |finding| finding.kind == kind && finding.is_failure())
}

/// Returns the largest number of bytes that `findings` add up to in one layer at one place.
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
