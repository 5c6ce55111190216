//! What is held, with the names it has for people.

use super::sites::site;
use crate::check::measure::Measured;
use crate::check::names::Names;
use crate::judge::{Amount, Confirmed, What};
use crate::ledger::Kind;
use crate::ledger::event::ContextEnd;
use crate::report::model::{AllowedBy, FailedRelease, Finding, FindingKind, Left};

/// What was left after each round, or at each snapshot.
pub(crate) fn left_after(amounts: &[Amount]) -> Vec<Left> {
    let left = amounts.iter().map(|amount| Left {
        count: amount.count,
        bytes: amount.bytes,
    });
    left.collect()
}

/// One thing to tell, with its place in the events of `run` where there is one.
pub(crate) fn finding(confirmed: &Confirmed, run: Option<&Measured>, names: &dyn Names) -> Finding {
    let held = &confirmed.held;
    let (verdict, kind) = match held.key.what {
        What::Live(kind) | What::EndedWithContext(kind, _) => (FindingKind::Leaked, Some(kind)),
        What::FailedFree { kind, .. } => (FindingKind::FailedFree, kind),
        What::HandedOut => (FindingKind::Leaked, Some(Kind::Block)),
        What::Reserve(_) => (FindingKind::Retained, None),
    };
    let mut notes = held.notes.clone();
    match &held.key.what {
        What::EndedWithContext(_, cause) => notes.push(
            match cause {
                ContextEnd::Destroyed => "freed only because its context was destroyed",
                ContextEnd::LastRelease => {
                    "freed only because the last primary context was released"
                }
                ContextEnd::Reset => "freed only because the device was reset",
            }
            .to_owned(),
        ),
        What::HandedOut | What::Reserve(_) | What::Live(_) | What::FailedFree { .. } => {}
    }
    let failed = match held.key.what {
        What::FailedFree { error, at, .. } => Some(FailedRelease {
            error: names.error(error),
            code: error,
            site: site(at, held, names),
        }),
        _ => None,
    };
    let verdict = match confirmed.first_use {
        true => FindingKind::FirstUse,
        false => verdict,
    };
    let taken_at = site(held.key.stack, held, names);
    Finding {
        resource: kind,
        pool: match held.key.what {
            What::Reserve(name) => name.pool(),
            _ => None,
        },
        count: held.count,
        bytes: held.bytes,
        each: held.each,
        taken: held.taken,
        given_back: held.taken.saturating_sub(held.count),
        when: run
            .zip(held.moments)
            .and_then(|(run, (first, last))| run.when(first, last)),
        confirmed: confirmed.second.filter(|_| !confirmed.first_use),
        failed,
        allowed_by: held.allowed.as_deref().map(AllowedBy::the_code),
        foreign_thread: held.foreign_thread.map(|thread| names.thread(thread)),
        notes,
        ..Finding::new(verdict, held.key.layer, held.key.place, taken_at)
    }
}
