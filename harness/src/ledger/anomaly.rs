//! What happened beside the plain coming and going of records.

use crate::sync::{Mutex, MutexGuard, PoisonError};

use super::event::{Caller, ContextEnd, CuResult, Key};
use super::kind::Kind;
use super::record::Record;

/// So many are kept; a program that fails a million frees does not need a million of them.
const LIMIT: usize = 10_000;

/// One such thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A free or destroy call returned an error.
    FailedRelease {
        /// What it named.
        key: Key,
        /// What is live under that name; none for an address the ledger does not know.
        record: Option<Record>,
        /// Who called.
        caller: Caller,
        /// The driver's answer.
        error: CuResult,
    },
    /// A creating call failed.
    FailedCreation {
        /// What was asked for.
        kind: Kind,
        /// How much.
        bytes: u64,
        /// Who called.
        caller: Caller,
        /// The driver's answer.
        error: CuResult,
    },
    /// A record died with its context, not by a call of its own.
    EndedWithContext {
        /// What it was.
        record: Record,
        /// How the context ended.
        cause: ContextEnd,
        /// Who ended it.
        caller: Caller,
    },
    /// A creation named something that was live: its release was not seen.
    Overwritten {
        /// What was live.
        record: Record,
    },
}

impl Anomaly {
    /// Whose it is: who made the failing call, or who made the record that is gone. A record that
    /// dies with its context was never freed by its maker, whoever ends the context.
    #[must_use]
    pub fn caller(&self) -> Caller {
        match self {
            Self::FailedRelease { caller, .. } | Self::FailedCreation { caller, .. } => *caller,
            Self::EndedWithContext { record, .. } | Self::Overwritten { record } => {
                record.made.caller
            }
        }
    }
}

/// A moment in the list of anomalies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(usize);

/// The anomalies, in order.
#[derive(Debug, Default)]
pub(super) struct Anomalies(Mutex<Vec<Anomaly>>);

impl Anomalies {
    fn lock(&self) -> MutexGuard<'_, Vec<Anomaly>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, anomaly: Anomaly) {
        let mut list = self.lock();
        if list.len() < LIMIT {
            list.push(anomaly);
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.lock().len())
    }

    pub(super) fn since(&self, mark: Mark) -> Vec<Anomaly> {
        self.lock().get(mark.0..).unwrap_or_default().to_vec()
    }
}
