//! What still holds physical memory that is left.

use rustc_hash::FxHashMap;

use super::held::{Held, HeldKey, What};
use crate::ledger::event::Key;
use crate::ledger::{Holding, Record};

/// Notes on what is `held` of physical memory whether a handle is missing its release or a range is
/// still mapped: one of the two was forgotten, and the line that took the memory does not say which.
pub(crate) fn tell_what_holds(
    records: &[Record],
    holdings: &FxHashMap<Key, Holding>,
    held: &mut [Held],
) {
    for held in held {
        let What::Live(kind) = held.key.what else {
            continue;
        };
        let is_one = |record: &&Record| HeldKey::of(record, What::Live(kind)) == held.key;
        let of_record = |record: &Record| holdings.get(&record.key());
        let holdings = records.iter().filter(is_one).filter_map(of_record);
        held.notes.extend(sentence(&holdings.collect::<Vec<_>>()));
    }
}

fn sentence(holdings: &[&Holding]) -> Option<String> {
    let count =
        |held: fn(&Holding) -> bool| holdings.iter().filter(|holding| held(holding)).count();
    let named = count(|holding| holding.references != 0);
    let mapped = count(|holding| holding.maps != 0);
    let (named, mapped) = if holdings.len() == 1 {
        (
            (named != 0).then(|| "its handle was not released (cuMemRelease)".to_owned()),
            (mapped != 0).then(|| "it is still mapped (cuMemUnmap)".to_owned()),
        )
    } else {
        (
            (named != 0)
                .then(|| format!("the handles of {named} were not released (cuMemRelease)")),
            (mapped != 0).then(|| format!("the maps of {mapped} are still there (cuMemUnmap)")),
        )
    };
    let parts: Vec<_> = named.into_iter().chain(mapped).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Held, HeldKey, Holding, Key, Record, What, tell_what_holds};
    use crate::ledger::event::{Caller, ContextUid, Creation, Space};
    use crate::ledger::{Kind, Layer, Place};

    fn record(space: Space, value: u64) -> Record {
        let made = Creation {
            key: Key { space, value },
            kind: Kind::Physical,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 64,
            context: ContextUid(0),
            stream: 0,
            pool: 0,
            caller: Caller::default(),
        };
        Record { sequence: 1, made }
    }

    /// The notes on objects at one line, with so many references and maps.
    fn notes(held_by: &[(u64, u64)]) -> Vec<String> {
        let records: Vec<_> = (0..held_by.len() as u64)
            .map(|id| record(Space::PhysicalObject, id))
            .collect();
        let holdings = records.iter().zip(held_by).map(|(record, held_by)| {
            let (references, maps) = *held_by;
            let holding = Holding {
                references,
                maps,
                mapped_at: None,
            };
            (record.key(), holding)
        });
        let mut held = [Held::new(HeldKey::of(
            &records[0],
            What::Live(Kind::Physical),
        ))];
        tell_what_holds(&records, &holdings.collect(), &mut held);
        let [held] = held;
        held.notes
    }

    #[test]
    fn the_call_that_is_missing_is_named() {
        assert_eq!(
            notes(&[(1, 0)]),
            ["its handle was not released (cuMemRelease)"]
        );
        assert_eq!(notes(&[(0, 2)]), ["it is still mapped (cuMemUnmap)"]);
        assert_eq!(
            notes(&[(1, 1)]),
            ["its handle was not released (cuMemRelease), it is still mapped (cuMemUnmap)"]
        );
        assert_eq!(
            notes(&[(1, 0), (1, 0), (0, 1)]),
            ["the handles of 2 were not released (cuMemRelease), \
                 the maps of 1 are still there (cuMemUnmap)"]
        );
    }

    #[test]
    fn nothing_is_said_of_other_memory() {
        let other = record(Space::DevicePointer, 1);
        let mut held = [Held::new(HeldKey::of(&other, What::Live(Kind::Physical)))];
        tell_what_holds(&[other], &Default::default(), &mut held);
        assert!(held[0].notes.is_empty());
    }
}
