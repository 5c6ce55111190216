//! The order of the findings of a check: what explains the others comes first, then what is most
//! likely to be the mistake.

use std::cmp::Reverse;

use super::broken_context;
use super::finding::Found;
use super::input::CheckInput;
use crate::report::{Finding, FindingKind, Site};

/// Sorts the findings. The call that broke a context comes first, because it explains the rest. Then
/// come failed frees that were probably supposed to free resources of the same call site as a leak.
/// The other findings are sorted by kind, with the worst first. Within a kind, the findings of the
/// program's own code come before those of libraries, because the program is the more likely cause.
/// After that, the largest come first.
pub(super) fn sort(found: &mut [Found], input: &CheckInput) {
    let broken = broken_context::of(input).map(|broken| broken.error);
    let is_left = |it: &Finding| matches!(it.kind, FindingKind::Leaked | FindingKind::Grew);
    let left = found.iter().filter(|it| is_left(&it.finding));
    let left: Vec<Site> = left.map(|it| it.finding.site.clone()).collect();
    found.sort_by_key(|Found { finding, meant, .. }| {
        let failed = finding.failed.as_ref();
        let is_broken = failed.is_some_and(|failed| Some(failed.code) == broken);
        let explains_a_leak = meant.iter().any(|site| left.contains(site));
        let is_of_a_library = finding.site.library.is_some();
        let size = (Reverse(finding.bytes), Reverse(finding.count));
        (
            !is_broken,
            !explains_a_leak,
            finding.kind,
            is_of_a_library,
            size,
        )
    });
}
