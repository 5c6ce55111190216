//! Finds leaked resources that are allowed to stay, because the code under test or a suppression
//! allows them, because a library keeps them until the process ends, or because the test expects
//! exactly this leak.

use super::diff::Diff;
use super::finding::{Found, of_group};
use super::input::{CheckInput, Expect};
use super::suppressions;
use crate::report::{AllowedBy, Finding, FindingKind};
use crate::units::{exact_size, quantity, total};

/// Returns the resources that may stay because the code that created them allows it.
pub(crate) fn by_the_code(diff: &Diff, input: &CheckInput) -> Vec<Found> {
    let all = diff.allowed.iter().filter_map(|(by, group)| {
        let kept = group.kept_in_all();
        if kept.amount.is_zero() {
            return None;
        }
        let run = group.first_run().unwrap_or(0);
        let kept = match input.facts.rounds > 1 {
            true => &kept,
            false => [&group.left[run], &kept][usize::from(group.left[run].amount.is_zero())],
        };
        let mut found = of_group(FindingKind::Allowed, group, kept, run, input);
        found.finding.allowed_by = Some(by.clone());
        Some(found)
    });
    all.collect()
}

/// Applies the suppressions and returns notes about expired ones.
pub(crate) fn by_suppressions<'a>(
    input: &CheckInput,
    found: impl Iterator<Item = &'a mut Found>,
) -> Vec<String> {
    let mut findings: Vec<&mut Finding> = found.map(|it| &mut it.finding).collect();
    let test = &input.subject.test;
    suppressions::apply(&input.suppressions, input.today, test, &mut findings)
}

/// Applies the shipped suppressions to the leaks of a whole program. Growth is never suppressed: it
/// is reported no matter what holds the memory.
pub(crate) fn kept_for_the_process(input: &CheckInput, found: &mut [Found]) {
    let all = found.iter_mut().map(|found| &mut found.finding);
    let mut leaked: Vec<_> = all
        .filter(|finding| matches!(finding.kind, FindingKind::Leaked | FindingKind::Deferred))
        .collect();
    // Shipped entries do not expire.
    suppressions::apply(
        &input.kept_for_the_process,
        input.today,
        &input.subject.test,
        &mut leaked,
    );
}

/// Compares the leaks of a test with its expected leaks. Expected leaks are allowed.
///
/// # Errors
///
/// If the leaks differ from the expected ones, returns a sentence with the expected and the actual
/// leaks.
pub(crate) fn expected(expect: Expect, found: &mut [Found]) -> Result<(), String> {
    let leaked = || {
        let all = found.iter().map(|found| &found.finding);
        all.filter(|finding| finding.kind == FindingKind::Leaked)
    };
    let count = total(leaked().map(|finding| finding.count));
    let bytes = total(leaked().map(|finding| finding.bytes));
    let met = |expected: Option<u64>, left| expected.is_none_or(|expected| expected == left);
    if !(met(expect.count, count) && met(expect.bytes, bytes)) {
        return Err(format!(
            "expected to leave {}, and left {}",
            amount(expect.count, expect.bytes),
            amount(expect.count.map(|_| count), expect.bytes.map(|_| bytes))
        ));
    }
    for found in found {
        if found.finding.kind == FindingKind::Leaked {
            found.finding.kind = FindingKind::Allowed;
            found.finding.allowed_by =
                Some(AllowedBy::new("the attribute", "expected by the test"));
        }
    }
    Ok(())
}

/// Returns, for example, `2 objects, 1.00 MiB`.
fn amount(count: Option<u64>, bytes: Option<u64>) -> String {
    let parts = [
        count.map(|count| quantity(count, "object")),
        bytes.map(exact_size),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
