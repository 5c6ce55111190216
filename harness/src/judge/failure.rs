//! Frees that failed, and the records that are live because of them.

use super::held::{Held, HeldKey, What};
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
pub(crate) fn explain_by_failed_frees(held: &mut Vec<Held>) {
    let failed: Vec<_> = held
        .iter()
        .filter_map(|held| match held.key.what {
            What::FailedFree {
                kind: Some(kind), ..
            } => Some((
                HeldKey {
                    what: What::Live(kind),
                    ..held.key.clone()
                },
                held.count,
            )),
            _ => None,
        })
        .collect();
    for (live, count) in failed {
        for other in held.iter_mut().filter(|other| other.key == live) {
            let explained = count.min(other.count);
            other.bytes -= other.bytes / other.count.max(1) * explained;
            other.count -= explained;
        }
    }
    held.retain(|held| held.count != 0);
}

#[cfg(test)]
mod tests {
    use super::{Held, HeldKey, Layer, Place, StackId, What, explain_by_failed_frees};
    use crate::ledger::Kind;

    #[test]
    fn a_failed_free_explains_its_own_record_and_no_other() {
        let key = |what| HeldKey {
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            what,
            stack: StackId(1),
        };
        let mut live = Held::new(key(What::Live(Kind::Linear)));
        live.add(64);
        live.add(64);
        let kind = Some(Kind::Linear);
        let mut failed = Held::new(key(What::FailedFree {
            kind,
            error: 1,
            at: StackId(2),
        }));
        failed.add(64);
        let mut held = vec![live, failed.clone()];
        explain_by_failed_frees(&mut held);
        assert_eq!((held[0].count, held[0].bytes), (1, 64));
        explain_by_failed_frees(&mut held);
        assert_eq!(held, [failed]);
    }
}
