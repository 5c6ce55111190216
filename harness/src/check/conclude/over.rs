//! Limits that a test passed, as findings.

use crate::check::names::Names;
use crate::judge::Over;
use crate::ledger::Kind;
use crate::report::model::{Budget, Confirmation, Finding, FindingKind, Limit, Share, Site};

/// How many sites a finding names.
const NAMED: usize = 5;

/// The findings of one run, or of two: a limit that the second run keeps was passed by what is set
/// up once.
pub(crate) fn findings(first: &[Over], second: Option<&[Over]>, names: &dyn Names) -> Vec<Finding> {
    let finding = |over: &Over| {
        let again = second.map(|second| second.iter().find(|other| other.is_like(over)));
        finding(over, again, names)
    };
    first.iter().map(finding).collect()
}

/// `again` is what the second run came to, if there was one and it passed the limit too.
fn finding(over: &Over, again: Option<Option<&Over>>, names: &dyn Names) -> Finding {
    let shares: Vec<(Share, Site)> = over
        .sites
        .iter()
        .take(NAMED)
        .map(|taken| {
            let site = names.site(taken.stack, Kind::Linear);
            let share = Share {
                count: taken.count,
                bytes: taken.bytes,
                at: site.location(),
            };
            (share, site)
        })
        .collect();
    let verdict = match again {
        Some(None) => FindingKind::FirstUse,
        _ => FindingKind::OverBudget,
    };
    let site = shares.first().map(|(_, site)| site.clone());
    Finding {
        pool: over.pool,
        count: 1,
        bytes: match over.limit {
            Limit::MaxAllocationCount => 0,
            _ => over.reached,
        },
        confirmed: again
            .flatten()
            .map(|again| Confirmation::by_second_run(1, again.reached)),
        budget: Some(Budget {
            limit: over.limit,
            allowed: over.allowed,
            reached: over.reached,
            shares: shares.into_iter().map(|(share, _)| share).collect(),
        }),
        ..Finding::new(verdict, over.layer, over.place, site.unwrap_or_default())
    }
}
