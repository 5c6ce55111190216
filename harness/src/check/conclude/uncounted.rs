//! Allocators whose reports could not be counted: blind is never clean.

use crate::code::Code;
use crate::ledger::Layer;
use crate::observe;
use crate::report::model::{CheckStatus, FindingKind, Reason, Report};

/// Tells of them, where there are such. What was found stays found.
pub(crate) fn tell(report: &mut Report) {
    let Some(first) = observe::first_not_counted() else {
        return;
    };
    let reason = reason(first);
    match report.status {
        CheckStatus::Clean
        | CheckStatus::Found(
            FindingKind::Allowed | FindingKind::Deferred | FindingKind::FirstUse,
        ) => {
            report.status = CheckStatus::Inconclusive;
            report.reason = Some(reason);
        }
        _ => {
            let note = format!("{}; {}", reason.what, reason.remedy);
            report.notes.push(note);
        }
    }
}

fn reason(first: &str) -> Reason {
    Reason::new(
        Code::TooManyAllocators,
        format!(
            "more than {} allocators report to this process: what {first:?}, the first beyond them, \
             and later ones hand out is not counted",
            Layer::LIMIT - 1
        ),
        "call those that belong together by one name where their `Source`s are made, or run the \
         test in a process of its own",
    )
}
