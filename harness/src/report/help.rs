//! Advice to the user about each kind of finding.

use super::check_report::{
    CheckStatus, Finding, FindingKind, Frame, HolderKind, Limit, MeantToStay, Passage, PassageKind,
    Report, verbs,
};
use super::finding::were;
use super::held_by;
use crate::units::{literal, total};
use gpu_leak_core::ledger::sticky_error;
use gpu_leak_core::report::begins_in_test;

/// The largest number of different remedies in a report for findings of one kind.
const MOST_REMEDIES: usize = 3;

/// Returns the advice for a report: remedies, and then what to do if a leak is meant to stay.
pub fn help(report: &Report) -> Vec<String> {
    let mut help = remedies(report);
    help.extend(if_meant_to_stay(report));
    help
}

/// Returns what to do about the reason why a check has no result, if there is one, and about each
/// kind of finding, worst first.
pub(super) fn remedies(report: &Report) -> Vec<String> {
    let mut kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    kinds.sort();
    kinds.dedup();
    let reason = report.reason.iter().map(|reason| reason.remedy.clone());
    let remedies = kinds.into_iter().flat_map(|kind| match kind {
        FindingKind::Leaked | FindingKind::Grew => for_resources(kind, report),
        kind => remedy(kind, report).into_iter().collect(),
    });
    reason.chain(remedies).collect()
}

/// Returns how to allow the leaks; `None` if there are none, or if they are certainly mistakes.
pub(super) fn if_meant_to_stay(report: &Report) -> Option<String> {
    let kinds = match report.is_of_a_program() {
        true => &[FindingKind::Leaked, FindingKind::Grew][..],
        false => &[FindingKind::Leaked],
    };
    let left = || causes(report).filter(|it| kinds.contains(&it.kind));
    let is_mistake = |finding: &Finding| {
        let is_cycle = finding.enclosing.as_ref().is_some_and(|it| it.is_cycle);
        let mut passages = finding.shown_passages();
        is_cycle || passages.any(|it| it.what == PassageKind::FreesInside)
    };
    let exceeds = |finding: &Finding| finding.exceeds.is_some();
    if left().all(is_mistake) || left().any(exceeds) {
        return None;
    }
    let stay = match total(left().map(|it| it.count)) {
        1 => "it is",
        _ => "they are",
    };
    match report.is_of_a_program() {
        true => Some(format!(
            "if {stay} meant to stay: `cargo gpu-leak allow --write --reason \"why it may stay\"` \
             allows the leaks of this run"
        )),
        false => {
            let options = report.meant_to_stay.as_ref()?;
            Some(format!(
                "if {stay} meant to stay: #[gpu_leak_check({options})]"
            ))
        }
    }
}

/// Returns the findings that are not consequences of others.
fn causes(report: &Report) -> impl Iterator<Item = &Finding> {
    report.findings.iter().filter(|it| !it.is_consequence)
}

/// Returns what to do about the resources in findings of this kind. The result is one sentence for
/// all of these findings, or one sentence for each remedy.
fn for_resources(kind: FindingKind, report: &Report) -> Vec<String> {
    let exceeded = report.findings.iter().find_map(|it| it.exceeds.as_ref());
    if let (FindingKind::Leaked, Some(entry)) = (kind, exceeded) {
        return vec![format!(
            "free the new allocations, or raise the limits of the entry at {entry} with `cargo gpu-leak allow --write`"
        )];
    }
    let of_kind = || causes(report).filter(|it| it.kind == kind);
    let one = total(of_kind().map(|it| it.count)) == 1;
    let mut remedies: Vec<String> = Vec::new();
    for finding in of_kind() {
        let remedy = for_its_cause(finding, report, one);
        let remedy = remedy.unwrap_or_else(|| in_general(kind, report, one));
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    if remedies.len() > MOST_REMEDIES {
        remedies = vec![in_general(kind, report, one)];
    }
    if let Some(last) = remedies.last_mut() {
        *last += python(report, kind);
    }
    remedies
}

/// Returns what to do about a finding, based on the most certain of its known causes; `None` if no
/// cause is known. `one` says whether the findings are about a single resource.
fn for_its_cause(finding: &Finding, report: &Report, one: bool) -> Option<String> {
    let (it, these) = if one {
        ("it", "this one")
    } else {
        ("them", "these")
    };
    let (_, freed) = finding.verbs();
    let (end, in_each_round) = match report.is_of_a_program() {
        true => ("the program ends", ""),
        false => ("the test ends", " in each round"),
    };
    let mut passages = finding.shown_passages();
    if passages.any(|it| it.what == PassageKind::FreesInside) {
        return Some("free the address that the allocation returned, not one inside it".to_owned());
    }
    let roots = finding.holders.iter().flatten().map(|holder| &holder.root);
    if let Some(started) = roots.clone().find_map(|root| root.started_in.as_ref()) {
        return Some(format!(
            "stop the thread that was started in {started}, and join it before {end}"
        ));
    }
    if let Some(root) = roots.clone().find(|root| root.kind != HolderKind::Stack) {
        let root = held_by::root(root);
        return Some(match finding.kind {
            FindingKind::Grew => format!("limit what {root} can hold, or clear it{in_each_round}"),
            _ => format!("remove {it} from {root} and free {it} before {end}"),
        });
    }
    if finding.enclosing.as_ref().is_some_and(|it| it.is_cycle) {
        return Some(format!(
            "break the cycle that keeps {it} alive, for example with a `Weak`"
        ));
    }
    if let Some(ended) = &finding.ended {
        let at = ended
            .at
            .as_deref()
            .map_or_else(String::new, |at| format!(": {}", nearest(at)));
        return Some(format!(
            "free {it} before that context or device is destroyed{at}"
        ));
    }
    // If the test itself dropped a block, that says little about the cause.
    let mut outlived = finding.outlived.iter();
    let owner = outlived.find(|it| !begins_in_test(&it.freed_at));
    let others = |are_alike: bool| {
        let mut others = finding.siblings.iter();
        let of = others.find(|it| it.allocated_from.is_none() == are_alike)?;
        let mut passages = finding.passages.iter();
        let here = passages.find(|it| it.what == PassageKind::ToFree);
        if let Some(Passage { frame, until, .. }) = here {
            return Some(format!(
                "look for a path from {} that does not reach line {until}, where others were {freed}: an \
                 early return, `?`, `continue`, a panic, or a value that is overwritten",
                frame.shown()
            ));
        }
        let at = nearest(&of.freed_at);
        Some(match owner {
            Some(owner) => format!(
                "{at} {freed} others but not {these}: either {} already been removed from the container, or {} \
                 still there when the container was dropped or cleared in {}",
                if one { "it had" } else { "they had" },
                if one { "it was" } else { "they were" },
                innermost(&owner.freed_at)
            ),
            None => format!(
                "others were {freed} in {at}, but not {these}: look for a path without a free, for \
                 code that removes or overwrites {it} first, or for one creation too many"
            ),
        })
    };
    let dropped = || {
        Some(format!(
            "free {it} before {} drops or clears what holds {it}",
            nearest(&owner?.freed_at)
        ))
    };
    let companion = || {
        let other = finding.companions.first()?;
        let (_, freed) = verbs(other.resource);
        let mut passages = finding.shown_passages();
        let at = match passages.any(|it| it.what == PassageKind::Freed) {
            true => innermost(&other.freed_at).to_owned(),
            false => nearest(&other.freed_at),
        };
        Some(format!(
            "free {it} too where {} {} {freed}: {at}",
            other.what(),
            were(other.count)
        ))
    };
    let failed = || {
        let mut findings = report.findings.iter();
        let failed = findings.find(|it| it.kind == FindingKind::FailedFree)?;
        let site = failed.shown_site();
        let caller = site.caller_of_wrapper().map(Frame::shown);
        let at = caller.unwrap_or_else(|| site.location());
        Some(format!("fix the free that failed at {at}"))
    };
    let cause = others(true).or_else(|| others(false).filter(|_| owner.is_some()));
    let cause = cause.or_else(dropped).or_else(companion).or_else(failed);
    let cause = cause.or_else(|| others(false));
    let is_held =
        finding.enclosing.is_some() || finding.holders.as_ref().is_none_or(|it| !it.is_empty());
    cause.or_else(|| {
        (finding.freed == 0 && !is_held).then(|| {
            format!(
                "nothing refers to {it} any more: look for a `Drop` or another function that should have \
                 freed {it} and did not, or for a `forget`, `leak` or `into_raw`"
            )
        })
    })
}

/// Returns the innermost caller in a chain of callers.
fn innermost(callers: &str) -> &str {
    callers.split(" ← ").next().unwrap_or_default()
}

/// Returns the innermost part of a chain of callers with its own caller, unless that caller is the
/// test, which would explain nothing.
fn nearest(callers: &str) -> String {
    let mut parts = callers.split(" ← ");
    let first = parts.next().unwrap_or_default().to_owned();
    match parts.next().filter(|it| !begins_in_test(it)) {
        Some(caller) => format!("{first} ← {caller}"),
        None => first,
    }
}

/// Returns what to do if no cause is known.
fn in_general(kind: FindingKind, report: &Report, one: bool) -> String {
    let it = if one { "it" } else { "them" };
    match (kind, report.is_of_a_program()) {
        (FindingKind::Leaked, true) => format!("free {it} before the program ends"),
        (FindingKind::Leaked, false) => format!("free {it} before the test ends"),
        (_, true) => {
            "free it as often as it is allocated: look for something that only grows, such as \
                      a list or a cache"
                .to_owned()
        }
        (_, false) => "in each round, free everything that the round allocates".to_owned(),
    }
}

fn remedy(kind: FindingKind, report: &Report) -> Option<String> {
    let text = match kind {
        FindingKind::FailedFree if breaks_a_context(report) => {
            "a kernel or a copy failed and broke its context, in which nothing can be freed any more: \
             find the failure with compute-sanitizer or CUDA_LAUNCH_BLOCKING=1, and fix it first"
        }
        FindingKind::FailedFree => {
            "a free that fails frees nothing. Unless a note says what was wrong, check that the \
             resource had not already been freed and that its context is still alive"
        }
        FindingKind::Retained => {
            // If there is a worse finding, its advice already names the options.
            let is_worst = report.status == CheckStatus::Found(kind);
            let options = report.meant_to_stay.as_ref().filter(|_| is_worst);
            let stay = options.map_or_else(String::new, |options| {
                format!("; if it is meant to stay: #[gpu_leak_check({options})]")
            });
            let text = format!("release the pool or empty its cache before the test ends{stay}");
            return Some(text);
        }
        FindingKind::OverBudget => {
            let budgets = of_kind(kind, report).filter_map(|it| it.budget.as_ref());
            let raised = Limit::ALL.iter().filter_map(|limit| {
                let of_limit = budgets.clone().filter(|budget| budget.limit == *limit);
                let largest = of_limit.map(|budget| budget.reached).max()?;
                Some(format!("{} = {}", limit.name(), literal(largest)))
            });
            let raised = raised.collect::<Vec<_>>().join(", ");
            let text = "allocate less, or raise the budget";
            return Some(format!("{text}: #[gpu_leak_check({raised})]"));
        }
        FindingKind::FirstUse if of_kind(kind, report).all(|it| it.budget.is_some()) => {
            "only the first run exceeded the limit, so the cause is probably one-time set-up: this is \
             reported, but fails the test only with GPU_LEAK_CHECK_FIRST_USE=fail. To silence this, do \
             that set-up before the first check, in a function with #[gpu_leak_check::warmup], or raise \
             the limit"
        }
        FindingKind::FirstUse => {
            let entry = function(report, kind).map_or_else(String::new, |function| {
                let options = MeantToStay::allow(function);
                format!(", or allow them: #[gpu_leak_check({options})]")
            });
            return Some(format!(
                "first use means resources that were created once and kept, such as a static or a library's workspace: \
                 they are reported, but fail the test only with GPU_LEAK_CHECK_FIRST_USE=fail. To \
                 silence this, create them before the first check, in a function with \
                 #[gpu_leak_check::warmup]{entry}"
            ));
        }
        FindingKind::Deferred if report.is_of_a_program() => {
            "this is reported, but is not a failure: the program can free the resource once it is no \
             longer needed. To fail on growth, run with --every"
        }
        FindingKind::Deferred => {
            "a later run freed it: something, typically a static, holds it until the next run \
             replaces the value; this is reported, but is not a failure"
        }
        // An allowed finding needs no advice.
        _ => return None,
    };
    Some(text.to_owned())
}

fn breaks_a_context(report: &Report) -> bool {
    let mut failed = report.findings.iter().filter_map(|it| it.failed.as_ref());
    failed.any(|failed| sticky_error(failed.code).is_some())
}

/// Returns how to free memory in Python, if a backtrace has Python frames.
fn python(report: &Report, kind: FindingKind) -> &'static str {
    let is_python = |finding: &Finding| {
        let file = finding.site.user_frame().and_then(|it| it.file.as_deref());
        file.is_some_and(|file| file.ends_with(".py"))
    };
    if of_kind(kind, report).any(is_python) {
        ". In Python, drop the last reference to it: look near the reported line for a name, list \
         or closure that keeps it (for a loss that is kept with its graph, store `loss.item()` \
         instead)"
    } else {
        ""
    }
}

fn of_kind(kind: FindingKind, report: &Report) -> impl Iterator<Item = &Finding> + Clone {
    report.findings.iter().filter(move |it| it.kind == kind)
}

/// Returns the function that all findings of `kind` have in common, except exceeded limits, which no
/// entry allows.
fn function(report: &Report, kind: FindingKind) -> Option<&str> {
    let left = of_kind(kind, report).filter(|it| it.budget.is_none());
    Finding::common_functions(&left.collect::<Vec<_>>())
        .first()
        .copied()
}
