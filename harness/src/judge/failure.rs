//! Frees that failed, and the records that are live because of them.

use rustc_hash::FxHashSet;

use super::held::{Held, HeldKey, What, group};
use crate::ledger::event::CuResult;
use crate::ledger::{Layer, Place, Record, StackId};

impl Held {
    /// A free of `record` (none: of an address that was not live) that returned `error`.
    pub(crate) fn failed_free(record: Option<&Record>, error: CuResult, at: StackId) -> Self {
        let made = record.map(|record| record.made);
        let mut held = Self::new(HeldKey {
            layer: made.map_or(Layer::DRIVER, |made| made.layer),
            place: made.map_or(Place::UNKNOWN, |made| made.place),
            what: What::FailedFree {
                kind: made.map(|made| made.kind),
                error,
                at,
            },
            stack: made.map(|made| made.caller.stack).unwrap_or_default(),
        });
        held.add(made.map_or(0, |made| made.bytes));
        held
    }
}

/// A record that is live only because its free failed is told once, as the failed free.
///
/// `failed` are the sequence numbers of what could not be freed, `live` is what is `held` as live. A
/// record that a later call freed is not among them, so it takes nothing from the others of its
/// line.
pub(crate) fn explain_by_failed_frees(
    failed: &FxHashSet<u64>,
    live: &[Record],
    held: &mut Vec<Held>,
) {
    if failed.is_empty() {
        return;
    }
    let key = |record: &Record| HeldKey::of(record, What::Live(record.made.kind));
    let (explained, others): (Vec<&Record>, Vec<&Record>) = live
        .iter()
        .partition(|record| failed.contains(&record.sequence));
    let touched: FxHashSet<_> = explained.into_iter().map(key).collect();
    let rest = others
        .into_iter()
        .filter(|record| touched.contains(&key(record)));
    let rest = group(rest.map(|record| (*record, What::Live(record.made.kind), None)));
    held.retain_mut(|held| {
        if !touched.contains(&held.key) {
            return true;
        }
        let Some(rest) = rest.iter().find(|rest| rest.key == held.key) else {
            return false;
        };
        // Nobody gave back what its free left there.
        held.taken = held.taken.saturating_sub(held.count - rest.count);
        (held.count, held.bytes) = (rest.count, rest.bytes);
        (held.each, held.moments) = (rest.each, rest.moments);
        true
    });
}

#[cfg(test)]
mod tests {
    use super::{FxHashSet, Held, Record, What, explain_by_failed_frees, group};
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space};
    use crate::ledger::{Kind, Layer, Place, StackId};

    fn record(sequence: u64, bytes: u64) -> Record {
        let made = Creation {
            key: Key {
                space: Space::DevicePointer,
                value: sequence,
            },
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller {
                stack: StackId(1),
                ..Caller::default()
            },
        };
        Record { sequence, made }
    }

    /// What is left to tell of `live` once the frees of `failed` explain theirs.
    fn rest(live: &[Record], failed: &[u64]) -> Vec<Held> {
        let mut held = group(live.iter().map(|it| (*it, What::Live(Kind::Linear), None)));
        let failed: FxHashSet<u64> = failed.iter().copied().collect();
        explain_by_failed_frees(&failed, live, &mut held);
        held
    }

    #[test]
    fn a_failed_free_explains_its_own_record_and_no_other() {
        let live = [record(1, 100), record(2, 1 << 20), record(3, 100)];
        let [left] = &rest(&live, &[2])[..] else {
            panic!("those that nobody freed")
        };
        assert_eq!(
            (left.count, left.bytes, left.each, left.moments),
            (2, 200, Some(100), Some((1, 3))),
            "of its own bytes, not of an average's"
        );
        assert_eq!(rest(&live, &[1, 2, 3]), []);
    }

    #[test]
    fn what_a_later_call_freed_explains_nothing() {
        let [left] = &rest(&[record(2, 64)], &[1])[..] else {
            panic!("the other one of the line is left")
        };
        assert_eq!((left.count, left.bytes), (1, 64));
    }
}
