//! Which allocators hold more of the layer below than at the baseline.

use crate::ledger::{Kind, Layer, PoolName, StackId};
use crate::units::exact_size;

use super::held::{Held, HeldKey, What};
use super::reading::{Level, LevelName, Reading};

/// The levels whose reserve rose by more than `tolerance` bytes, each as a finding of its own.
pub(crate) fn risen(before: &Reading, after: &Reading, tolerance: u64) -> Vec<Held> {
    after
        .levels
        .iter()
        .filter_map(|level| rise(before, level, tolerance))
        .collect()
}

fn rise(before: &Reading, level: &Level, tolerance: u64) -> Option<Held> {
    let was = before
        .level(&level.name, level.place)
        .and_then(|level| level.reserved);
    let more = level.reserved?.checked_sub(was.unwrap_or(0))?;
    if more <= tolerance {
        return None;
    }
    let layer = match &level.name {
        LevelName::Layer(layer) | LevelName::Probe(layer) => *layer,
        LevelName::Pool(_) => Layer::DRIVER,
    };
    let key = HeldKey {
        layer,
        place: level.place,
        what: What::Reserve(level.name),
        stack: StackId::default(),
    };
    let mut held = Held::new(key);
    held.add(more);
    if tolerance != 0 {
        let allowed = exact_size(tolerance);
        held.notes
            .push(format!("more than the reserved_tolerance of {allowed}"));
    }
    Some(held)
}

/// The reserves that nothing live explains; the others become notes on what pins them.
pub(crate) fn unexplained(reserves: Vec<Held>, held: &mut [Held]) -> Vec<Held> {
    let mut alone = Vec::new();
    for reserve in reserves {
        let What::Reserve(name) = &reserve.key.what else {
            continue;
        };
        match held.iter_mut().find(|held| pins(held, &reserve)) {
            Some(pinning) => pinning.notes.push(format!(
                "keeps {} of the reserve of {name} from being given back",
                exact_size(reserve.bytes)
            )),
            None => alone.push(reserve),
        }
    }
    alone
}

/// Whether what is held can be the reason of this reserve: it lies in the same allocator.
pub(crate) fn pins(held: &Held, reserve: &Held) -> bool {
    let here = held.key.layer == reserve.key.layer && held.key.place == reserve.key.place;
    let What::Reserve(name) = &reserve.key.what else {
        return false;
    };
    let in_pool = match held.key.what {
        What::HandedOut => true,
        What::Live(kind)
        | What::FailedFree {
            kind: Some(kind), ..
        } => match kind {
            // The memory of graphs has a pool of its own.
            Kind::Graph => *name == LevelName::Pool(PoolName::Graph),
            Kind::StreamOrdered => *name != LevelName::Pool(PoolName::Graph),
            kind => kind == Kind::Block,
        },
        _ => false,
    };
    here && in_pool
}

#[cfg(test)]
mod tests {
    use super::{
        Held, HeldKey, Kind, Layer, Level, LevelName, PoolName, Reading, StackId, What, risen,
        unexplained,
    };
    use crate::ledger::Place;

    fn pool(reserved: u64) -> Reading {
        let level = Level {
            name: LevelName::Pool(PoolName::Default),
            place: Place::cuda(0),
            allocated: 0,
            peak: None,
            reserved: Some(reserved),
        };
        Reading {
            levels: vec![level],
            ..Reading::default()
        }
    }

    #[test]
    fn a_reserve_is_explained_by_what_lies_in_its_own_pool() {
        for (kind, pool, is_explained) in [
            (Kind::Graph, PoolName::Graph, true),
            (Kind::Graph, PoolName::Default, false),
            (Kind::StreamOrdered, PoolName::Default, true),
            (Kind::StreamOrdered, PoolName::Graph, false),
            (Kind::Linear, PoolName::Graph, false),
        ] {
            let held = |what, bytes| {
                let mut held = Held::new(HeldKey {
                    layer: Layer::DRIVER,
                    place: Place::cuda(0),
                    what,
                    stack: StackId::default(),
                });
                held.add(bytes);
                held
            };
            let mut live = [held(What::Live(kind), 64)];
            let reserve = held(What::Reserve(LevelName::Pool(pool)), 32 << 20);
            let alone = unexplained(vec![reserve], &mut live);
            assert_eq!(alone.is_empty(), is_explained, "{kind:?} in {pool}");
            assert_eq!(live[0].notes.len(), usize::from(is_explained));
        }
    }

    #[test]
    fn only_what_rose_beyond_the_tolerance_is_told() {
        assert!(risen(&pool(32), &pool(32), 0).is_empty());
        assert!(
            risen(&pool(32), &pool(16), 0).is_empty(),
            "less than before is no finding"
        );
        assert!(
            risen(&pool(32), &pool(40), 8).is_empty(),
            "the tolerance is inclusive"
        );
        assert_eq!(risen(&pool(32), &pool(41), 8)[0].bytes, 9);
        assert_eq!(
            risen(&Reading::default(), &pool(5), 0)[0].bytes,
            5,
            "a new pool had nothing"
        );
    }
}
