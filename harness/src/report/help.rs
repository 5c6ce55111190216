//! What the user can do about each kind of finding.

use super::check_report::{CheckStatus, Finding, FindingKind, Limit, MeantToStay, Report};
use crate::units::literal;
use gpu_leak_core::ledger::sticky_error;

/// Returns one or two sentences for the reason why `report` is inconclusive, if it is, and for each
/// kind of finding, worst first.
#[must_use]
pub fn help(report: &Report) -> Vec<String> {
    let mut kinds: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    kinds.sort();
    kinds.dedup();
    let reason = report.reason.iter().map(|reason| reason.remedy.clone());
    let remedies = kinds.into_iter().filter_map(|kind| remedy(kind, report));
    reason.chain(remedies).collect()
}

fn remedy(kind: FindingKind, report: &Report) -> Option<String> {
    let exceeded = report.findings.iter().find_map(|it| it.exceeds.as_ref());
    if let (FindingKind::Leaked, Some(entry)) = (kind, exceeded) {
        return Some(format!(
            "free what is new, or raise the bound of the entry at {entry}: `cargo gpu-leak allow --write`"
        ));
    }
    let text = match kind {
        FindingKind::Leaked | FindingKind::Grew if report.is_of_a_program() => {
            let what = match kind {
                FindingKind::Leaked => "free it before the program ends",
                _ => {
                    "free it as often as it is allocated: look for something that only grows, \
                      such as a list or a cache"
                }
            };
            format!(
                "{what}{}; if it is meant to stay: `cargo gpu-leak allow --write --reason \"…\"`, with the \
                 reason, allows what this run left",
                python(report, kind)
            )
        }
        FindingKind::Leaked => {
            let option = meant_to_stay(report);
            format!("free it before the test ends{option}")
        }
        FindingKind::FailedFree if breaks_a_context(report) => {
            "a kernel or a copy failed and broke its context, in which nothing can be freed: find \
             it with compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1, and fix it first"
                .to_owned()
        }
        FindingKind::FailedFree => {
            "a free that fails frees nothing. Check that the resource was not freed before and \
             that its context is still alive"
                .to_owned()
        }
        FindingKind::Retained => {
            // Next to a leak, the leak's help names the options.
            let is_worst = report.status == CheckStatus::Found(kind);
            let option = match is_worst {
                true => meant_to_stay(report),
                false => String::new(),
            };
            format!("release the pool or empty its cache before the test ends{option}")
        }
        FindingKind::Grew => "free in each round what the round allocates".to_owned(),
        FindingKind::OverBudget => {
            let of_kind = |finding: &&Finding| finding.kind == kind;
            let budgets = report.findings.iter().filter(of_kind);
            let largest = |limit: Limit| {
                let reached = budgets
                    .clone()
                    .filter_map(|finding| finding.budget.as_ref());
                let reached = reached.filter(|budget| budget.limit == limit);
                reached.map(|budget| budget.reached).max()
            };
            let raised = Limit::ALL.iter().filter_map(|limit| {
                largest(*limit).map(|reached| format!("{} = {}", limit.option(), literal(reached)))
            });
            format!(
                "allocate less, or raise the budget: #[gpu_leak_check({})]",
                raised.collect::<Vec<_>>().join(", ")
            )
        }
        FindingKind::FirstUse => {
            let entry = function(report, kind).map_or_else(String::new, |function| {
                let options = MeantToStay::allow(function);
                format!(", or allow it: #[gpu_leak_check({options})]")
            });
            format!(
                "it was created once and kept, like a static or a library's workspace: this is \
                 reported, but it is a failure only with GPU_LEAK_CHECK_FIRST_USE=fail. To create \
                 it before the first check, do so in a function with \
                 #[gpu_leak_check::warmup]{entry}"
            )
        }
        FindingKind::Deferred if report.is_of_a_program() => {
            "this is reported, but it is not a failure: the program can drop it once it is no longer \
             needed. To fail on growth, run with --every"
                .to_owned()
        }
        FindingKind::Deferred => {
            "a later run freed it: something, typically a static, holds it until it is replaced; \
             this is reported, but it is not a failure"
                .to_owned()
        }
        // An allowed finding needs no help.
        _ => return None,
    };
    Some(text)
}

fn breaks_a_context(report: &Report) -> bool {
    let mut failed = report.findings.iter().filter_map(|it| it.failed.as_ref());
    failed.any(|failed| sticky_error(failed.code).is_some())
}

/// Returns how to release memory in Python, if a backtrace has Python frames.
fn python(report: &Report, kind: FindingKind) -> &'static str {
    let mut found = report.findings.iter().filter(|it| it.kind == kind);
    let is_python = |finding: &Finding| {
        let file = finding.site.user_frame().and_then(|it| it.file.as_deref());
        file.is_some_and(|file| file.ends_with(".py"))
    };
    if found.any(is_python) {
        ". In Python, drop the last reference to it: look near the reported line for a name, list \
         or closure that keeps it (for a loss that is kept with its graph, store `loss.item()` \
         instead)"
    } else {
        ""
    }
}

/// Returns `; if it is meant to stay: …`, if some options would have made the check pass.
fn meant_to_stay(report: &Report) -> String {
    report
        .meant_to_stay
        .as_ref()
        .map_or_else(String::new, |options| {
            format!("; if it is meant to stay: #[gpu_leak_check({options})]")
        })
}

/// Returns the function that all findings of `kind` come from.
fn function(report: &Report, kind: FindingKind) -> Option<&str> {
    let of_kind = report.findings.iter().filter(|it| it.kind == kind);
    Finding::common_function(&of_kind.collect::<Vec<_>>())
}
