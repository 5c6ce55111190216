//! A test that is to leak: whether it left exactly what it says.

use crate::judge;
use crate::options::Expect;
use crate::order;
use crate::report::model::{CheckStatus, FindingKind, Report};
use crate::units::{exact_size, quantity};

/// Compares what a test left with what it is to leave. What is left as expected is allowed.
///
/// # Errors
///
/// What was expected and what was left, as the failing test's line.
pub(crate) fn settle(expect: Expect, report: &mut Report) -> Result<(), String> {
    let leaked = report
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Leaked);
    let count = judge::total(leaked.clone().map(|finding| finding.count));
    let bytes = judge::total(leaked.map(|finding| finding.bytes));
    let met = |expected: Option<u64>, left| expected.is_none_or(|expected| expected == left);
    if !(met(expect.count, count) && met(expect.bytes, bytes)) {
        return Err(format!(
            "gpu leak check: expected to leave {}, and left {}",
            amount(expect.count, expect.bytes),
            amount(expect.count.map(|_| count), expect.bytes.map(|_| bytes))
        ));
    }
    for finding in &mut report.findings {
        if finding.kind == FindingKind::Leaked {
            finding.kind = FindingKind::Allowed;
        }
    }
    if report.status == CheckStatus::Found(FindingKind::Leaked) {
        order::by_key(&mut report.findings, |finding| finding.kind);
        report.status = CheckStatus::Found(report.findings[0].kind);
    }
    Ok(())
}

/// `2 objects, 1.00 MiB`
fn amount(count: Option<u64>, bytes: Option<u64>) -> String {
    let parts = [
        count.map(|count| quantity(count, "object")),
        bytes.map(exact_size),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
