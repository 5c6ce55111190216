//! Contexts that a kernel or a copy broke, in which every later call fails with the same error.

use rustc_hash::FxHashSet;

use super::input::CheckInput;
use crate::ledger::event::{Caller, CuResult};
use crate::ledger::{Anomaly, Kind, Place, sticky_error};

/// A broken context, and the first call in it that is known to have failed.
#[derive(Debug)]
pub(crate) struct BrokenContext {
    /// The error that every call returns.
    pub(crate) error: CuResult,
    /// The device of the context, if known.
    place: Option<Place>,
    /// The caller of the first call that returned the error, and the kind of resource that this
    /// call should have created.
    pub(crate) first: Option<(Caller, Option<Kind>)>,
    /// The sequence numbers of the resources that ended with a context after that first call.
    pub(crate) ended: FxHashSet<u64>,
}

impl BrokenContext {
    /// Whether resources at `place` may belong to this context.
    pub(crate) fn is_at(&self, place: Place) -> bool {
        place == Place::HOST
            || self
                .place
                .is_none_or(|own| own == place || own == Place::UNKNOWN)
    }
}

/// Returns the broken context of a check: the one that the harness found when it synchronised, or
/// one in which a call returned an error that breaks contexts.
pub(crate) fn of(input: &CheckInput) -> Option<BrokenContext> {
    let found = input.broken_context();
    let is_first = |anomaly: &&Anomaly| {
        let error = failed_with(anomaly).map(|(_, _, error)| error);
        error.is_some_and(|error| match found {
            Some(found) => error == found.error,
            None => sticky_error(error).is_some(),
        })
    };
    let runs = input.judged_runs().iter();
    let anomalies = runs.flat_map(|run| &run.anomalies);
    let mut rest = anomalies.skip_while(|anomaly| !is_first(anomaly));
    let first = rest.next().and_then(failed_with);
    let error = found.map(|found| found.error);
    Some(BrokenContext {
        error: error.or(first.map(|(_, _, error)| error))?,
        place: found.map(|found| found.place),
        first: first.map(|(caller, kind, _)| (caller, kind)),
        ended: rest
            .filter_map(|anomaly| Some(anomaly.ended()?.sequence))
            .collect(),
    })
}

/// Returns the caller of a failed call, the kind of resource that the call should have created, and
/// the error.
fn failed_with(anomaly: &Anomaly) -> Option<(Caller, Option<Kind>, CuResult)> {
    match *anomaly {
        Anomaly::FailedFree(failed) => Some((failed.caller, None, failed.error)),
        Anomaly::FailedCreation {
            caller,
            error,
            kind,
            ..
        } => Some((caller, Some(kind), error)),
        Anomaly::EndedWithContext { .. } | Anomaly::Overwritten { .. } => None,
    }
}
