//! Says of a leak where others of the same line were freed, and through which callers they were
//! allocated: the difference is often the mistake, such as a branch that returns early.
//!
//! Only runs that confirm a leak know it, because the stacks of frees are taken only there.

use std::collections::BTreeMap;

use super::finding::Found;
use super::input::CheckInput;
use crate::report::{Finding, FindingKind, Sibling, Site};

/// How many places of frees a finding names.
const MOST_PLACES: usize = 3;

/// Adds to each leak where its siblings were freed in the last run that knows.
pub(super) fn add(found: &mut [Found], input: &CheckInput) {
    let runs = input.judged_runs().iter().rev();
    let Some(run) = runs.clone().find(|run| !run.freed_of_run.is_empty()) else {
        return;
    };
    for Found { finding, .. } in found {
        if finding.kind != FindingKind::Leaked {
            continue;
        }
        let mut places: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
        for freed in &run.freed_of_run {
            if (freed.layer, Some(freed.kind)) != (finding.layer, finding.resource) {
                continue;
            }
            let allocated = input.names.site(freed.allocated, freed.kind);
            if let Some(from) = difference(&allocated, finding, &input.subject.test) {
                let at = input.names.site(freed.freed, freed.kind);
                *places
                    .entry((at.shown(&input.subject.test), from))
                    .or_default() += freed.count;
            }
        }
        let sibling = |((freed_at, allocated_from), count)| Sibling {
            count,
            freed_at,
            allocated_from,
        };
        finding.siblings = places.into_iter().map(sibling).collect();
        // Stable: those of the finding's own callers come first, the largest first.
        finding.siblings.sort_by_key(|sibling| {
            let is_other = sibling.allocated_from.is_some();
            (is_other, u64::MAX - sibling.count)
        });
        finding.siblings.truncate(MOST_PLACES);
    }
}

/// Compares a call site with that of a finding: `None` if it is on another line, `Some(None)` if
/// the callers are the same, and otherwise its callers.
fn difference(site: &Site, finding: &Finding, test: &str) -> Option<Option<String>> {
    let line = |site: &Site| {
        let frame = site.user_frame()?;
        Some((frame.file.clone()?, frame.line?))
    };
    (line(site)? == line(&finding.site)?).then(|| {
        let callers = site.callers(test);
        callers.filter(|callers| finding.site.callers(test).as_ref() != Some(callers))
    })
}
