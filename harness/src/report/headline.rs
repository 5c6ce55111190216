//! Summarises the result of a check in one line.

use super::check_report::{CheckStatus, Finding, FindingKind, Limit, Report};
use super::escape;
use super::summary::words;
use crate::ledger::{Amount, Kind, Place};
use crate::units::{exact_size, listed, quantity, total};

/// Returns a line such as `gpu leak: 2 allocations, 1.00 MiB on cuda:0, allocated at
/// src/optim.rs:88`.
///
/// The line sums up only the findings that determined the status. To get a line about a single
/// finding, format that finding. Control characters in names are escaped.
///
/// ```
/// use gpu_leak_check::{Scope, report::headline};
///
/// let report = Scope::open("step").finish();
/// println!("{}", headline(&report));
/// ```
pub fn headline(report: &Report) -> String {
    let findings: Vec<_> = report
        .findings
        .iter()
        .filter(|it| CheckStatus::Found(it.kind) == report.status && !it.is_unconfirmed())
        .collect();
    let is_handle = |finding: &&Finding| finding.resource.is_some_and(Kind::is_handle);
    let left_by = |findings: &[&Finding]| {
        let verb = match findings.iter().all(is_handle) {
            true => "created",
            false => "allocated",
        };
        format!("{}, {verb} {}", amounts(findings), places(findings))
    };
    let left = || left_by(&findings);
    let status = format!("gpu leak check: {}", status(report));
    match report.status {
        CheckStatus::Found(kind) if !findings.is_empty() => match kind {
            FindingKind::Leaked => format!("gpu leak: {}", left()),
            FindingKind::FailedFree => {
                let failed = failures(&findings);
                format!("gpu free failed: {failed} {}", places(&findings))
            }
            FindingKind::Retained => format!("gpu memory retained: {}", amounts(&findings)),
            FindingKind::Grew => format!("gpu memory grew: {}", left()),
            FindingKind::OverBudget => format!("gpu budget exceeded: {}", budgets(&findings)),
            FindingKind::FirstUse | FindingKind::Deferred => {
                // A limit that only the first run exceeded is first use, too.
                let (limits, rest): (Vec<_>, Vec<_>) =
                    findings.iter().copied().partition(|it| it.budget.is_some());
                let rest = (!rest.is_empty()).then(|| left_by(&rest));
                let limits = (!limits.is_empty()).then(|| budgets(&limits));
                let texts: Vec<_> = rest.into_iter().chain(limits).collect();
                format!("{status}: {}", texts.join("; "))
            }
            FindingKind::Allowed => format!("{status}: {}", amounts(&findings)),
            _ => status,
        },
        CheckStatus::Clean => status,
        CheckStatus::Unexpected => format!("gpu leak check: {}", why(report)),
        _ => format!("{status}: {}", why(report)),
    }
}

/// Returns why the check has its status, if no finding says so.
pub(super) fn why(report: &Report) -> String {
    match (&report.reason, &report.failed_inside, report.status) {
        (Some(reason), ..) => escape::sentence(&reason.what),
        (None, Some(inside), _) => {
            format!("the check {} inside this test failed", escape::name(inside))
        }
        (None, None, CheckStatus::Clean) => "no leak".to_owned(),
        (None, None, CheckStatus::Aborted) => "the process ended inside the test".to_owned(),
        (None, None, _) => "the reason is unknown".to_owned(),
    }
}

/// Returns the status and, if there is no result, the reason's code, as in
/// `inconclusive (no probe)`.
pub(super) fn status(report: &Report) -> String {
    let name = report.status.name();
    let why = report.reason.as_ref();
    why.map_or_else(
        || name.to_owned(),
        |why| format!("{name} ({})", words(why.code)),
    )
}

/// Returns a text such as `1.50 MiB on cuda:0, max_allocated is 1.00 MiB`.
fn budgets(findings: &[&Finding]) -> String {
    let budget = |finding: &&Finding| {
        let budget = finding.budget.as_ref()?;
        let show = match budget.limit {
            Limit::MaxAllocationCount => |count| quantity(count, "allocation"),
            Limit::MaxAllocated | Limit::MaxTotalAllocated | Limit::MaxReserved => exact_size,
        };
        Some(format!(
            "{} on {}, {} is {}",
            show(budget.reached),
            escape::name(&finding.place.to_string()),
            budget.limit.name(),
            show(budget.allowed)
        ))
    };
    listed(&findings.iter().filter_map(budget).collect::<Vec<_>>())
}

/// Returns a text such as `2 allocations, 1.00 MiB on cuda:0 and 1 stream on cuda:1`.
fn amounts(findings: &[&Finding]) -> String {
    let mut amounts: Vec<((Category, Place), Amount)> = Vec::new();
    for finding in findings {
        let category = match finding.resource {
            Some(kind) if kind.is_handle() => Category::Handles(kind),
            Some(_) => Category::Allocations,
            None => Category::Reserve,
        };
        let key = (category, finding.place);
        match amounts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, sum)) => *sum = sum.plus(finding.amount()),
            None => amounts.push((key, finding.amount())),
        }
    }
    let texts = amounts
        .iter()
        .map(|((category, place), sum)| amount(*category, *place, *sum));
    listed(&texts.collect::<Vec<_>>())
}

/// The categories in which the findings of a place are summed up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Category {
    Allocations,
    Reserve,
    Handles(Kind),
}

/// Returns a text such as `2 allocations, 1.00 MiB on cuda:0`.
fn amount(category: Category, place: Place, sum: Amount) -> String {
    let amount = match category {
        Category::Allocations => sum.text("allocation"),
        Category::Reserve => format!("{} reserved", exact_size(sum.bytes)),
        Category::Handles(kind) => quantity(sum.count, kind.noun()),
    };
    format!("{amount} on {}", escape::name(&place.to_string()))
}

/// Returns a text such as `1 free returned CUDA_ERROR_INVALID_VALUE (1)`.
fn failures(findings: &[&Finding]) -> String {
    let frees = quantity(total(findings.iter().map(|finding| finding.count)), "free");
    let failed = findings.iter().find_map(|finding| finding.failed.as_ref());
    match failed {
        Some(failed) => format!("{frees} {}", failed.returned()),
        None => format!("{frees} returned an error"),
    }
}

/// Returns a text such as `at src/optim.rs:88 and 2 other places`.
fn places(findings: &[&Finding]) -> String {
    let mut places: Vec<String> = Vec::new();
    for finding in findings {
        let place = finding.location();
        if !places.contains(&place) {
            places.push(place);
        }
    }
    match places.as_slice() {
        [] => "at an unknown place".to_owned(),
        [place] => format!("at {place}"),
        [place, others @ ..] => {
            format!(
                "at {place} and {}",
                quantity(others.len() as u64, "other place")
            )
        }
    }
}
