//! The expected result of a session without rounds.

use std::collections::BTreeMap;

use super::{
    Amount, Class, Expected, Group, Layer, Lost, View, gains, layer, layer_of_sum, repeats,
};

impl View<'_> {
    /// Adds an error unless the session made as many runs as were necessary.
    pub(super) fn check_runs(&self, wrong: &mut Vec<String>) {
        let runs = self.runs;
        let mut fail = |what: &str| wrong.push(format!("{runs} runs: {what}"));
        if self.could_not_repeat || self.judged[0].panicked {
            return;
        }
        if self.rounds > 1 {
            let rounds = self.rounds as usize;
            if runs > rounds {
                fail("more runs than rounds");
            }
            if runs < rounds && (runs < 3 || self.gains_so_far()) {
                fail("the rounds ended while something still grew");
            }
            return;
        }
        if !self.confirms {
            if runs != 1 {
                fail("nothing was to be confirmed");
            }
            return;
        }
        let is_left = self.groups.values().any(|group| !group.left[0].is_zero());
        let rose = |rises: &[u64]| rises[0] != 0;
        let sum_rose = self.judged_sums().any(|(_, rises)| rose(rises));
        let is_left = is_left || sum_rose || rose(&self.reserve);
        match runs {
            1 if is_left => fail("what the first run left was never confirmed"),
            2 if self.is_undecided() => fail("what only the second run left needs a third run"),
            2.. if !is_left && !self.is_ambiguous && !self.is_mixed => {
                fail("the first run left nothing")
            }
            4.. => fail("more than three runs"),
            _ => {}
        }
    }

    pub(super) fn is_undecided(&self) -> bool {
        let is_new = |rises: &[u64]| matches!(rises, [0, more] if *more != 0);
        let of_group = self.groups.values().any(|group| {
            let [first, second] = &group.kept[..] else {
                return false;
            };
            let replaced = Amount {
                count: group.left[0].count - first.count,
                bytes: group.left[0].bytes - first.bytes,
            };
            // The third run must also decide about what the second run left in addition.
            let new = Amount {
                count: second.count.saturating_sub(first.count),
                bytes: second.bytes.saturating_sub(first.bytes),
            };
            new.count > replaced.count || new.bytes > replaced.bytes
        });
        of_group || is_new(&self.reserve) || self.judged_sums().any(|(_, rises)| is_new(rises))
    }

    pub(super) fn expect_of_runs(&self, expected: &mut Expected) {
        let runs = self.judged.len();
        let tolerance = self.session.settings.tolerance;
        let mut layers: BTreeMap<Layer, Lost> = BTreeMap::new();
        for (class, groups) in self.by_class() {
            let lost = layers
                .entry(layer(class))
                .or_insert_with(|| Lost::new(runs));
            let total = |of: fn(&Group, usize) -> Amount, run: usize| {
                let amounts = groups.iter().map(|group| of(group, run));
                amounts.fold(Amount::default(), Amount::plus)
            };
            let kept = |run| total(|group, run| group.kept[run], run);
            let level = |run| total(|group, run| group.level[run], run);
            // The report omits findings for which a nested check failed.
            let groups: Vec<_> = groups.iter().filter(|group| !group.is_settled).collect();
            for group in &groups {
                if runs == 1 || group.repeats() {
                    lost.is_confirmed = true;
                    for (most, kept) in lost.most.iter_mut().zip(&group.kept) {
                        *most += kept.bytes;
                    }
                    lost.add(group.repeated());
                } else if group.left == group.kept {
                    lost.once += group.kept.iter().map(|kept| kept.bytes).sum::<u64>();
                }
            }
            lost.is_in_all = runs == 3 && (0..runs).all(|run| !kept(run).is_zero());
            if lost.is_in_all || runs == 3 && gains((0..runs).map(level)) {
                lost.is_confirmed = true;
                lost.most = (0..runs).map(|run| kept(run).bytes).collect();
            }
            if lost.is_confirmed {
                expected.confirmed.insert(class);
            }
        }
        for (sum, rises) in self.judged_sums() {
            let lost = layers
                .entry(layer_of_sum(sum))
                .or_insert_with(|| Lost::new(runs));
            let rose: Vec<bool> = rises.iter().map(|rise| *rise != 0).collect();
            if (runs == 1 && rose[0]) || repeats(&rose) {
                lost.is_confirmed = true;
                lost.add(rises.to_vec());
                // Only the sum over all runs can be compared, because a leak and one-time set-up
                // look the same.
                let most = rises.iter().max().copied().unwrap_or(0);
                lost.most.iter_mut().for_each(|sum| *sum += most);
            } else {
                lost.once += rises.iter().sum::<u64>();
            }
        }
        for (layer, lost) in layers {
            let leaks = lost.least.iter().any(|bytes| *bytes > tolerance);
            let leaks = leaks || lost.is_in_all && lost.most.iter().all(|bytes| *bytes > tolerance);
            if leaks {
                let bytes = &lost.most;
                expected.must_fail = Some(format!("{bytes:?} B of {layer:?} are leaked"));
            } else {
                expected.tolerated.insert(layer.clone());
            }
            if lost.is_confirmed {
                expected.may_fail |= lost.most.iter().any(|bytes| *bytes > tolerance);
            }
            if lost.once <= tolerance {
                expected.tolerated_once.insert(layer);
            }
        }
        let rose: Vec<bool> = self.reserve.iter().map(|rise| *rise != 0).collect();
        if (runs == 1 && rose[0]) || repeats(&rose) {
            expected.must_fail = Some(format!("{:?} B are reserved for nothing", self.reserve));
        }
        if self.judged[0].panicked {
            // The report omits findings for which a nested check failed.
            expected.may_fail |= expected.must_fail.take().is_some();
        }
    }

    pub(super) fn by_class(&self) -> BTreeMap<Class, Vec<&Group>> {
        let mut classes: BTreeMap<Class, Vec<&Group>> = BTreeMap::new();
        for ((class, _), group) in &self.groups {
            classes.entry(*class).or_default().push(group);
        }
        classes
    }
}
