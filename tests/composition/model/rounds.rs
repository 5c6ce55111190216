//! The expected result of a session with rounds, which depends on what increases in each round.

use std::collections::BTreeMap;

use super::{Amount, Class, Expected, Layer, View, gains, layer, layer_of_sum};

impl View<'_> {
    pub(super) fn gains_so_far(&self) -> bool {
        let always = |rises: &[u64]| rises.iter().all(|rise| *rise != 0);
        self.groups
            .values()
            .any(|group| gains(group.level.iter().copied()))
            || self
                .class_levels()
                .values()
                .any(|levels| gains(levels.iter().copied()))
            || always(&self.reserve)
            || self.judged_sums().any(|(_, rises)| always(rises))
    }

    /// The amount that was live after each run, by allocator and place, at all call sites.
    pub(super) fn class_levels(&self) -> BTreeMap<Class, Vec<Amount>> {
        let mut classes: BTreeMap<Class, Vec<Amount>> = BTreeMap::new();
        for ((class, _), group) in &self.groups {
            let levels = classes
                .entry(*class)
                .or_insert_with(|| vec![Amount::default(); self.judged.len()]);
            for (sum, level) in levels.iter_mut().zip(&group.level) {
                *sum = sum.plus(*level);
            }
        }
        classes
    }

    pub(super) fn expect_of_rounds(&self, expected: &mut Expected) {
        if self.could_not_repeat || self.judged[0].panicked {
            return;
        }
        let mut grown: BTreeMap<Layer, u64> = BTreeMap::new();
        for ((class, _), group) in &self.groups {
            if gains(group.level.iter().copied()) {
                *grown.entry(layer(*class)).or_default() +=
                    group.level.last().map_or(0, |it| it.bytes);
            }
        }
        let mut all = grown.clone();
        for (class, levels) in self.class_levels() {
            if gains(levels.iter().copied()) {
                expected.confirmed.insert(class);
                let last = levels.last().map_or(0, |it| it.bytes);
                all.entry(layer(class))
                    .and_modify(|it| *it = last.max(*it))
                    .or_insert(last);
                grown.entry(layer(class)).or_insert(last);
            }
        }
        for (sum, rises) in self.judged_sums() {
            if rises.iter().all(|rise| *rise != 0) {
                let rise: u64 = rises.iter().sum();
                *grown.entry(layer_of_sum(sum)).or_default() += rise;
                *all.entry(layer_of_sum(sum)).or_default() += rise;
            }
        }
        let tolerance = self.session.settings.tolerance;
        let over = |(layer, bytes): (&Layer, &u64)| {
            (*bytes > tolerance).then(|| format!("{bytes} B of {layer:?} have grown"))
        };
        expected.must_fail = grown.iter().find_map(over);
        expected.may_fail = all.iter().any(|(_, bytes)| *bytes > tolerance);
        if self.reserve.iter().all(|rise| *rise != 0) {
            expected.must_fail = Some("the reserve grew in every round".to_owned());
        }
    }
}
