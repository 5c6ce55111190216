//! The status of a check as a whole: the kind of its worst finding or, if no finding decides it,
//! another status. A failing finding decides the status, even if something could not be measured.
//! If nothing fails but something could not be measured, the check is not clean.

use super::diff::Diff;
use super::growth::FEWEST_ROUNDS;
use super::input::{CheckInput, ContextError};
use super::{is_undecided, reserve, sums};
use crate::call_site::allocators::Allocator;
use crate::ledger::{Anomaly, Kind};
use crate::report::{CheckStatus, Code, Confirmation, Finding, FindingKind, Reason};
use crate::units::listed;

/// Returns the status and, if the check has no result, the reason. Reasons that do not decide the
/// status become notes.
pub(crate) fn status(
    input: &CheckInput,
    diff: &Diff,
    findings: &[Finding],
    notes: &mut Vec<String>,
) -> (CheckStatus, Option<Reason>) {
    let mut reasons = reasons(input, diff, findings).into_iter();
    let failing = findings.iter().filter(|finding| finding.is_failure());
    if let Some(worst) = failing.map(|finding| finding.kind).min() {
        let inconclusive = reasons.filter(|(status, _)| *status == CheckStatus::Inconclusive);
        notes.extend(inconclusive.map(|(_, reason)| sentence(&reason)));
        return (CheckStatus::Found(worst), None);
    }
    if let Some((status, reason)) = reasons.next() {
        notes.extend(reasons.map(|(_, reason)| sentence(&reason)));
        return (status, Some(reason));
    }
    let worst = findings.iter().map(|finding| finding.kind).min();
    (worst.map_or(CheckStatus::Clean, CheckStatus::Found), None)
}

fn sentence(reason: &Reason) -> String {
    format!("{}; {}", reason.what, reason.remedy)
}

/// Returns why the check has no result, the most important reason first.
fn reasons(input: &CheckInput, diff: &Diff, findings: &[Finding]) -> Vec<(CheckStatus, Reason)> {
    let mut reasons = Vec::new();
    if let Some(broken) = &input.first().broken_before {
        reasons.push((CheckStatus::Inconclusive, broken_context(broken, input)));
    }
    if let Some(untraced) = &input.untraced {
        let status = match untraced.lost {
            true => CheckStatus::Inconclusive,
            false => CheckStatus::NotMeasured,
        };
        reasons.push((status, untraced.reason.clone()));
    }
    let mut inconclusive = |reason: Reason| reasons.push((CheckStatus::Inconclusive, reason));
    let is_cut_short = input.facts.rounds > 1 && input.judged_runs().len() < FEWEST_ROUNDS;
    if input.first().broken_before.is_none()
        && let Some(broken) = input.broken_context()
        && (is_cut_short || reserve::is_kept_by_a_broken_context(input))
    {
        let mut reason = broken_context(&broken, input);
        if is_cut_short {
            let (ran, wanted) = (input.judged_runs().len(), input.facts.rounds);
            reason.what += &format!(", so only {ran} of {wanted} rounds ran");
        }
        inconclusive(reason);
    }
    if !diff.missing_probes.is_empty() {
        inconclusive(missing_probes(&diff.missing_probes));
    }
    if let Some(reason) = ambiguous_free(input) {
        inconclusive(reason);
    }
    // A test whose second run fails must not pass because something else is also unknown. So this
    // reason comes before the one about a sum that others could have changed.
    let lacks_a_run = input.could_not_repeat()
        && input.facts.rounds <= 1
        && input.judged_runs().len() > 1
        && is_undecided(input, diff);
    if findings.iter().any(Finding::is_unconfirmed) || lacks_a_run {
        inconclusive(not_repeatable(input));
    }
    let shared = sums::shared(input);
    if !shared.is_empty() {
        inconclusive(Reason::new(
            Code::Shared,
            shared.join("; "),
            // The leak may be one of another test, so the advice judges all tests.
            "to find out, run one test at a time (`--test-threads=1`), or each test in its own \
             process (nextest or `isolate`) if a test leaves a thread running, or have the \
             allocator report its blocks (`observe::Source`)",
        ));
    }
    reasons
}

/// Returns the reason why findings cannot be confirmed. The findings may be about limits and
/// reserves, not only about what the runs left.
fn not_repeatable(input: &CheckInput) -> Reason {
    let what = match input.judged_runs().len() {
        1 => {
            "the second run, which was meant to confirm the findings of the first run, ended \
             differently"
        }
        _ => {
            "two runs did not show whether their findings repeat, and the third run, which was \
             meant to decide, ended differently"
        }
    };
    Reason::new(
        Code::NotRepeatable,
        what,
        "check the test's output to see how the last run ended, and make the body repeatable; if \
         the body can run only once, set `confirm = false`",
    )
}

/// Marks a failing finding as one that no further run could confirm. A failed free needs no
/// confirmation, and a finding confirmed by the second run stays confirmed if the third run failed.
pub(crate) fn cannot_be_confirmed(finding: &mut Finding) {
    let needs_it = finding.kind.is_failure() && finding.kind != FindingKind::FailedFree;
    if needs_it && finding.confirmed.is_none() {
        finding.confirmed = Some(Confirmation::NotRepeatable);
    }
}

fn broken_context(broken: &ContextError, input: &CheckInput) -> Reason {
    let error = input.names.error(broken.error);
    let (by, first) = match &input.names.broken_by {
        Some(test) if *test == input.subject.test => (
            "by this test".to_owned(),
            "first find the kernel or the call that broke it",
        ),
        Some(test) => (format!("by {test}"), "fix that test first"),
        None => (
            "outside any check of this process".to_owned(),
            "first find the call that broke the context",
        ),
    };
    Reason::new(
        Code::Poisoned,
        format!("the context on {} was broken {by} ({error})", broken.place),
        format!("{first}; running each test in its own process (nextest) protects the others"),
    )
}

/// Returns the reason why a check cannot judge allocators without a probe. The reason is the same
/// for every check, so that a run reports it once.
fn missing_probes(missing: &[&'static Allocator]) -> Reason {
    let named = missing
        .iter()
        .map(|allocator| format!("{} (used by {})", allocator.name, allocator.used_by));
    let probes = missing.iter().map(|allocator| match allocator.probe_in {
        Some(package) => format!("the probe of the crate {package}"),
        None => format!("a probe named {:?}", allocator.name),
    });
    let caches = match missing {
        [_] => "the allocator's cache",
        _ => "the allocators' caches",
    };
    Reason::new(
        Code::NoProbe,
        format!(
            "memory that {} allocated from the driver is still held: only a probe can tell which \
             parts of it are in use, so it may be a leak or a cache",
            listed(&named.collect::<Vec<_>>())
        ),
        format!(
            "register {} with gpu_leak_check::probe!, or empty {caches} before the test ends",
            listed(&probes.collect::<Vec<_>>())
        ),
    )
}

/// Returns the reason if an allocator reported an allocation at an address that was still live, and
/// that address was then freed.
fn ambiguous_free(input: &CheckInput) -> Option<Reason> {
    let mut anomalies = input.judged_runs().iter().flat_map(|run| &run.anomalies);
    let overwritten = anomalies.find_map(|anomaly| match anomaly {
        Anomaly::Overwritten {
            record,
            by: Some(by),
        } if record.made.kind == Kind::Block => Some((record, by)),
        _ => None,
    })?;
    let (made, again) = (&overwritten.0.made, &overwritten.1.made);
    let remedy = match made.place == again.place {
        true => {
            "report each free, and make sure that allocator instances sharing a `Source` use \
             different addresses"
        }
        false => {
            "if two devices may use the same addresses, report through an `observe::PlacedSource`, \
             whose frees name the device"
        }
    };
    Some(Reason::new(
        Code::AmbiguousFree,
        format!(
            "{} reported {:#x} as allocated while it was already live on {}, so it is unknown \
             which of the two allocations a later free refers to",
            made.layer,
            made.key.value(),
            made.place
        ),
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::cannot_be_confirmed;
    use crate::judge::finding::of_sum;
    use crate::ledger::{Layer, Place};
    use crate::report::{Confirmation, FindingKind};

    #[test]
    fn a_leak_that_two_runs_confirmed_fails_without_a_third_run() {
        let mut leaked = of_sum(FindingKind::Leaked, Layer::DRIVER, Place::cuda(0), 8);
        leaked.confirmed = Some(Confirmation::by_second_run(1, 8));
        cannot_be_confirmed(&mut leaked);
        assert!(leaked.is_failure());
        leaked.confirmed = None;
        cannot_be_confirmed(&mut leaked);
        assert!(!leaked.is_failure() && leaked.is_unconfirmed());
    }
}
