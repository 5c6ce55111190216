//! Events that are neither a plain allocation nor a plain free.

use std::mem::{self, Discriminant};

use super::quiet_lock::lock_quietly;
use crate::sync::Mutex;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::event::{Caller, ContextEnd, CuResult, Key, Record, ScopeId};
use super::kind::Kind;

/// The largest number of anomalies of one kind that are kept per scope. A test with a million
/// failed frees does not need all of them, but the first failed frees of the next test must still
/// be kept.
const LIMIT: u32 = 10_000;

/// An event that is neither a plain allocation nor a plain free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anomaly {
    /// A free or destroy call returned an error.
    FailedFree(FailedCall),
    /// A call that should have created something failed.
    FailedCreation {
        /// The kind that was requested.
        kind: Kind,
        /// The number of bytes that was requested.
        bytes: u64,
        /// The caller.
        caller: Caller,
        /// The error that the driver returned.
        error: CuResult,
    },
    /// A record ended with its context, without being freed itself.
    EndedWithContext {
        /// The record.
        record: Record,
        /// How the context ended.
        cause: ContextEnd,
        /// The caller that ended the context.
        caller: Caller,
    },
    /// A creation used a key that was still live, so the free of the earlier record was missed.
    /// If the two records are in different places, both may be live. In that case, an allocator
    /// uses the same address in both places and should report through an `observe::PlacedSource`.
    Overwritten {
        /// The record that was live. The ledger has removed it.
        record: Record,
        /// The record that has the key now. `None` for resources that may have more than one
        /// holder.
        by: Option<Record>,
    },
}

/// A free or destroy call that returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCall {
    /// The key of the resource that the call was meant to free.
    pub key: Key,
    /// The live record with this key. `None` for an address that the ledger does not know.
    pub record: Option<Record>,
    /// The caller.
    pub caller: Caller,
    /// The error that the driver returned.
    pub error: CuResult,
}

impl Anomaly {
    /// Returns the record that ended with its context, if the anomaly is about such a record.
    pub fn ended(&self) -> Option<&Record> {
        match self {
            Self::EndedWithContext { record, .. } => Some(record),
            _ => None,
        }
    }

    /// Returns the caller that caused the anomaly: the caller of the failed call, or the creator of
    /// the record that is gone. For a record that ended with its context, this is the creator,
    /// which never freed it, no matter which caller ended the context.
    pub fn caller(&self) -> Caller {
        match self {
            Self::FailedFree(FailedCall { caller, .. }) | Self::FailedCreation { caller, .. } => {
                *caller
            }
            Self::EndedWithContext { record, .. } | Self::Overwritten { record, .. } => {
                record.made.caller
            }
        }
    }
}

/// A position in the list of anomalies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(usize);

/// The anomalies, in order.
#[derive(Debug, Default)]
pub struct Anomalies(Mutex<AnomalyList>);

#[derive(Debug, Default)]
struct AnomalyList {
    all: Vec<Anomaly>,
    /// The number of anomalies that are kept for each scope and kind.
    kept: FxHashMap<(ScopeId, Discriminant<Anomaly>), u32>,
}

impl Anomalies {
    pub(super) fn push(&self, anomaly: Anomaly) {
        let AnomalyList { all, kept } = &mut *lock_quietly(&self.0);
        let scope_and_kind = (anomaly.caller().scope, mem::discriminant(&anomaly));
        let kept = kept.entry(scope_and_kind).or_default();
        // Each record that ended with its context was live until then, and must be reported.
        if *kept < LIMIT || anomaly.ended().is_some() {
            *kept += 1;
            all.push(anomaly);
        }
    }

    pub fn mark(&self) -> Mark {
        Mark(lock_quietly(&self.0).all.len())
    }

    pub fn before(&self, mark: Mark) -> Vec<Anomaly> {
        lock_quietly(&self.0)
            .all
            .get(..mark.0)
            .unwrap_or_default()
            .to_vec()
    }

    pub fn since(&self, mark: Mark) -> Vec<Anomaly> {
        lock_quietly(&self.0)
            .all
            .get(mark.0..)
            .unwrap_or_default()
            .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::{Anomalies, Anomaly, FailedCall, LIMIT, Mark};
    use crate::ledger::event::{Caller, ContextEnd, ContextUid, Creation, Key, ScopeId, Space};
    use crate::ledger::{Kind, Layer, Place, Record};

    const KEY: Key = Key::new(Space::DevicePointer, 1);

    fn of(scope: u32) -> Caller {
        Caller {
            scope: ScopeId(scope),
            ..Caller::default()
        }
    }

    fn failed_creation(scope: u32) -> Anomaly {
        Anomaly::FailedCreation {
            kind: Kind::Linear,
            bytes: 1,
            caller: of(scope),
            error: 2,
        }
    }

    fn failed_free(scope: u32) -> Anomaly {
        Anomaly::FailedFree(FailedCall {
            key: KEY,
            record: None,
            caller: of(scope),
            error: 1,
        })
    }

    #[test]
    fn the_limit_of_one_scope_does_not_affect_another() {
        let anomalies = Anomalies::default();
        for _ in 0..LIMIT {
            anomalies.push(failed_creation(1));
            anomalies.push(failed_free(1));
        }
        assert_eq!(anomalies.since(Mark::default()).len(), 2 * LIMIT as usize);
        let mark = anomalies.mark();
        anomalies.push(failed_free(1));
        assert_eq!(anomalies.since(mark), [], "the limit is reached");
        anomalies.push(failed_free(2));
        assert_eq!(anomalies.since(mark), [failed_free(2)]);
    }

    #[test]
    fn the_limit_of_one_kind_does_not_affect_another() {
        let anomalies = Anomalies::default();
        for _ in 0..=LIMIT {
            anomalies.push(failed_creation(1));
        }
        let mark = anomalies.mark();
        anomalies.push(failed_free(1));
        assert_eq!(anomalies.since(mark), [failed_free(1)]);
        assert_eq!(anomalies.before(mark).len(), LIMIT as usize);
    }

    #[test]
    fn everything_that_ends_with_a_context_is_reported() {
        let anomalies = Anomalies::default();
        let ended = Anomaly::EndedWithContext {
            record: Record {
                sequence: 1,
                made: Creation {
                    key: KEY,
                    kind: Kind::Linear,
                    layer: Layer::DRIVER,
                    place: Place::cuda(0),
                    bytes: 1,
                    context: ContextUid(1),
                    stream: 0,
                    pool: 0,
                    caller: of(1),
                },
            },
            cause: ContextEnd::Reset,
            caller: of(1),
        };
        for _ in 0..=LIMIT {
            anomalies.push(ended);
        }
        let reported = anomalies.since(Mark::default());
        assert_eq!(reported.len(), LIMIT as usize + 1);
    }
}
