//! That the figures are those of the records: for tests, which count the slow way.

use std::collections::HashMap;

use super::Ledger;
use crate::ledger::{Kind, Layer, Place};

impl Ledger {
    /// Panics where a figure differs from what the records in the table come to. Nothing else may
    /// be going on.
    pub(crate) fn assert_figures(&self) {
        let mut bytes: HashMap<(Layer, Place), u64> = HashMap::new();
        let mut handles: HashMap<Place, u64> = HashMap::new();
        let mut kinds: HashMap<Kind, u64> = HashMap::new();
        for record in self.table.select(|_| true) {
            let made = &record.made;
            *kinds.entry(made.kind).or_default() += 1;
            if made.kind.is_handle() {
                *handles.entry(made.place).or_default() += 1;
            } else {
                let sum = bytes.entry((made.layer, made.place)).or_default();
                *sum = sum.wrapping_add(made.bytes);
            }
        }
        for kind in Kind::ALL {
            let counted = kinds.get(&kind).copied().unwrap_or(0);
            assert_eq!(self.counters().live(kind), counted, "{kind:?}");
        }
        for (place, counted) in handles {
            assert_eq!(self.counters().handles(place).live, counted, "{place}");
        }
        for ((layer, place), counted) in bytes {
            assert_eq!(
                self.counters().bytes(layer, place).live,
                counted,
                "{layer} {place}"
            );
        }
    }
}
