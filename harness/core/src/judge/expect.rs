//! A test that is to leak: whether it left exactly what it says.

use super::finding::Found;
use super::input::Expect;
use crate::report::{AllowedBy, FindingKind};
use crate::units::{exact_size, quantity, total};

/// Compares what a test left with what it is to leave. What is left as expected is allowed.
///
/// # Errors
///
/// What was expected and what was left, as the failing test's line.
pub(crate) fn compare(expect: Expect, found: &mut [Found]) -> Result<(), String> {
    let leaked = || {
        let all = found.iter().map(|found| &found.finding);
        all.filter(|finding| finding.kind == FindingKind::Leaked)
    };
    let count = total(leaked().map(|finding| finding.count));
    let bytes = total(leaked().map(|finding| finding.bytes));
    let met = |expected: Option<u64>, left| expected.is_none_or(|expected| expected == left);
    if !(met(expect.count, count) && met(expect.bytes, bytes)) {
        return Err(format!(
            "gpu leak check: expected to leave {}, and left {}",
            amount(expect.count, expect.bytes),
            amount(expect.count.map(|_| count), expect.bytes.map(|_| bytes))
        ));
    }
    for found in found {
        if found.finding.kind == FindingKind::Leaked {
            found.finding.kind = FindingKind::Allowed;
            found.finding.allowed_by = Some(AllowedBy {
                stands_in: "the attribute".to_owned(),
                reason: "expected by the test".to_owned(),
                owner: None,
                expired: None,
            });
        }
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
