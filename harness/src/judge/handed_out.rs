//! Which allocators have handed out more than at the baseline, where only a probe tells.
//!
//! An allocator that reports its blocks is judged by them, one by one. Of one that does not, the
//! sum is all there is: no line, and freeing something old can hide a new leak of the same size.

use crate::ledger::StackId;

use super::held::{Held, HeldKey, What};
use super::reading::{Level, LevelName, Reading};

/// The probed levels whose blocks nobody reports and which rose by more than `tolerance` bytes,
/// each as one finding: how many blocks there are is not known either.
pub(crate) fn handed_out(before: &Reading, after: &Reading, tolerance: u64) -> Vec<Held> {
    let levels = after.levels.iter();
    levels
        .filter_map(|level| rise(before, level, tolerance))
        .collect()
}

fn rise(before: &Reading, level: &Level, tolerance: u64) -> Option<Held> {
    let LevelName::Probe(layer) = level.name else {
        return None;
    };
    if level.peak.is_some() {
        // The ledger knows its blocks.
        return None;
    }
    let was = before.level(&level.name, level.place);
    let more = level
        .allocated
        .checked_sub(was.map_or(0, |was| was.allocated))?;
    if more <= tolerance {
        return None;
    }
    let mut held = Held::new(HeldKey {
        layer,
        place: level.place,
        what: What::HandedOut,
        stack: StackId::default(),
    });
    held.add(more);
    let name = layer.allocator_name().unwrap_or_default();
    held.notes.push(format!(
        "told by the probe of {name}, which knows the sum, and neither lines nor single blocks"
    ));
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::{Level, LevelName, Reading, handed_out};
    use crate::ledger::{Layer, Place};

    fn probed(allocated: u64, peak: Option<u64>) -> Reading {
        let level = Level {
            name: LevelName::Probe(Layer::allocator("handed-out-test")),
            place: Place::cuda(0),
            allocated,
            peak,
            reserved: Some(1 << 20),
        };
        Reading {
            levels: vec![level],
            ..Reading::default()
        }
    }

    fn bytes(before: &Reading, after: &Reading, tolerance: u64) -> Option<u64> {
        let held = handed_out(before, after, tolerance);
        assert!(held.len() <= 1);
        held.first().map(|held| held.bytes)
    }

    #[test]
    fn what_rose_beyond_the_tolerance_is_told_once() {
        let was = probed(100, None);
        assert_eq!(bytes(&was, &probed(100, None), 0), None);
        assert_eq!(bytes(&was, &probed(40, None), 0), None);
        assert_eq!(bytes(&was, &probed(140, None), 0), Some(40));
        assert_eq!(bytes(&was, &probed(140, None), 40), None, "inclusive");
        assert_eq!(bytes(&Reading::default(), &probed(7, None), 0), Some(7));
    }

    #[test]
    fn an_allocator_that_reports_its_blocks_is_judged_by_them() {
        let (was, is) = (probed(100, Some(100)), probed(140, Some(140)));
        assert_eq!(bytes(&was, &is, 0), None);
    }
}
