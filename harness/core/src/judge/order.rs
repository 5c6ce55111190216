//! The order of the findings of a check: what explains the others comes first, then what is most
//! likely to be the mistake.

use std::cmp::Reverse;

use super::broken_context;
use super::finding::Found;
use super::input::CheckInput;

/// Sorts the findings. The call that broke a context comes first, because it explains the rest. The
/// other findings are sorted by kind, with the worst first. Within a kind, the findings of the
/// program's own code come before those of libraries, because the program is the more likely cause.
/// After that, the largest come first.
pub(super) fn sort(found: &mut [Found], input: &CheckInput) {
    let broken = broken_context::of(input).map(|broken| broken.error);
    found.sort_by_key(|Found { finding, .. }| {
        let failed = finding.failed.as_ref();
        let is_broken = failed.is_some_and(|failed| Some(failed.code) == broken);
        let is_of_a_library = finding.site.library.is_some();
        let size = (Reverse(finding.bytes), Reverse(finding.count));
        (!is_broken, finding.kind, is_of_a_library, size)
    });
}
