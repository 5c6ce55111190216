//! What happened during a run beside the coming and going of records.

use rustc_hash::FxHashSet;

use crate::ledger::{Anomaly, Record};

use super::failure::explain_by_failed_frees;
use super::held::{Held, What, group};

/// Adds to what is `held` the frees that failed and what only the end of a context freed. The
/// records behind what is held as live are `live`.
///
/// A call site that fails to free the same record twice has failed to free one.
///
/// In a poisoned context every free fails from some moment on: that is one finding, with
/// everything that could not be freed.
pub(crate) fn happened(
    anomalies: &[Anomaly],
    poisoned: bool,
    live: &[Record],
    held: &mut Vec<Held>,
) {
    let mut ended = Vec::new();
    let mut not_freed = FxHashSet::default();
    let mut met = FxHashSet::default();
    let mut failed: Vec<Held> = Vec::new();
    for anomaly in anomalies {
        match *anomaly {
            Anomaly::FailedRelease {
                key,
                record,
                caller,
                error,
            } => {
                let mut new = Held::failed_free(record.as_ref(), error, caller.stack);
                if let Some(Record { sequence, .. }) = record {
                    not_freed.insert(sequence);
                    if !met.insert((new.key.clone(), sequence)) {
                        continue;
                    }
                } else {
                    let note = format!("the address {:#x} was not live", key.value);
                    new.notes.push(note);
                }
                match failed
                    .iter_mut()
                    .find(|known| poisoned || known.key == new.key)
                {
                    Some(known) => known.absorb(new),
                    None => failed.push(new),
                }
            }
            Anomaly::EndedWithContext { record, cause, .. } => {
                let what = What::EndedWithContext(record.made.kind, cause);
                ended.push((record, what, None));
            }
            Anomaly::FailedCreation { .. } | Anomaly::Overwritten { .. } => {}
        }
    }
    held.extend(group(ended));
    held.append(&mut failed);
    if poisoned {
        put_under_the_failure(held);
    } else {
        explain_by_failed_frees(&not_freed, live, held);
    }
}

/// What is live in a context where nothing can be freed is no news of its own.
fn put_under_the_failure(held: &mut Vec<Held>) {
    let is_failure = |held: &Held| matches!(held.key.what, What::FailedFree { .. });
    let Some(at) = held.iter().position(is_failure) else {
        return;
    };
    let mut failure = held.swap_remove(at);
    // The record of a failed free is live as well: count what is live, not the calls.
    (failure.count, failure.bytes) = (0, 0);
    for live in held.extract_if(.., |held| matches!(held.key.what, What::Live(_))) {
        failure.count = failure.count.saturating_add(live.count);
        failure.bytes = failure.bytes.saturating_add(live.bytes);
    }
    failure.count = failure.count.max(1);
    failure.notes.push(
        "the context is broken: every call in it fails since a kernel or a copy did. Look for that \
         one first"
            .to_owned(),
    );
    failure.each = None;
    held.push(failure);
}

#[cfg(test)]
mod tests {
    use super::{Anomaly, Held, Record, What, happened};
    use crate::judge::group;
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space};
    use crate::ledger::{Kind, Layer, Place, StackId};

    fn record(address: u64, bytes: u64) -> Record {
        let key = Key {
            space: Space::DevicePointer,
            value: address,
        };
        let caller = Caller {
            stack: StackId(1),
            ..Caller::default()
        };
        let made = Creation {
            key,
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller,
        };
        Record {
            sequence: address,
            made,
        }
    }

    fn failed(record: Record, error: u32) -> Anomaly {
        Anomaly::FailedRelease {
            key: record.made.key,
            record: Some(record),
            caller: Caller {
                stack: StackId(2),
                ..Caller::default()
            },
            error,
        }
    }

    /// What there is to tell of `live`, and of these failures.
    fn told(live: &[Record], failures: &[Anomaly], poisoned: bool) -> Vec<Held> {
        let mut held = group(live.iter().map(|it| (*it, What::Live(Kind::Linear), None)));
        happened(failures, poisoned, live, &mut held);
        held
    }

    #[test]
    fn a_record_whose_free_failed_is_told_once() {
        let records = [record(1, 24), record(2, 24)];
        let failures = [failed(records[0], 1), failed(records[1], 1)];
        let [failure] = &told(&records, &failures, false)[..] else {
            panic!("the failure alone")
        };
        assert_eq!((failure.count, failure.bytes), (2, 48));
        assert!(matches!(failure.key.what, What::FailedFree { .. }));
    }

    #[test]
    fn a_free_that_fails_twice_fails_for_one_record() {
        let records = [record(1, 24), record(2, 24)];
        let failures = [failed(records[0], 1), failed(records[0], 1)];
        let [live, failure] = &told(&records, &failures, false)[..] else {
            panic!("the failure, and the record that nobody freed")
        };
        assert_eq!((failure.count, failure.bytes), (1, 24));
        assert_eq!((live.count, live.bytes), (1, 24));
        assert_eq!(live.key.what, What::Live(Kind::Linear));
    }

    #[test]
    fn a_free_that_is_repeated_with_success_hides_no_other_leak() {
        let (freed, leaked) = (record(1, 24), record(2, 8));
        let all = told(&[leaked], &[failed(freed, 1)], false);
        let [live, failure] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((live.count, live.bytes), (1, 8));
        assert_eq!(failure.bytes, 24, "the call failed, whatever came after");
    }

    #[test]
    fn a_poisoned_context_is_one_finding_with_all_that_is_live() {
        let records = [record(1, 24), record(2, 8), record(3, 8)];
        let failures = [failed(records[0], 700), failed(records[1], 700)];
        let [failure] = &told(&records, &failures, true)[..] else {
            panic!("the failure alone")
        };
        assert_eq!((failure.count, failure.bytes), (3, 40));
    }
}
