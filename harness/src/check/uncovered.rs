//! Memory that a known caching allocator holds and no probe can tell of.

use crate::judge::{Held, What};
use crate::ledger::{self, Layer};
use crate::probe;
use crate::report::allocators::{self, Allocator};
use crate::report::model::Reason;

/// Takes out what was taken through a caching allocator without a probe, and returns the
/// allocators.
///
/// Its blocks cannot be judged, and its segments are no leaks: they stay for the next block. Looks
/// the stacks up, so call it when there is nothing left to wait for.
pub(crate) fn take_uncovered(held: &mut Vec<Held>) -> Vec<&'static Allocator> {
    let mut uncovered: Vec<&'static Allocator> = Vec::new();
    held.retain(|held| {
        let Some(allocator) = uncovered_allocator(held) else {
            return true;
        };
        if !uncovered.contains(&allocator) {
            uncovered.push(allocator);
        }
        false
    });
    uncovered
}

fn uncovered_allocator(held: &Held) -> Option<&'static Allocator> {
    let is_memory = matches!(held.key.what, What::Live(kind) if !kind.is_handle());
    if !is_memory || held.key.layer != Layer::DRIVER {
        return None;
    }
    let frames = ledger::live().stacks().frames(held.key.stack);
    let allocator = allocators::allocator(frames)?;
    let probed = probe::all()
        .iter()
        .any(|probe| probe.name() == allocator.name);
    (!probed).then_some(allocator)
}

/// Why a check cannot speak for such an allocator. The same for every check, so that a run tells
/// it once.
pub(crate) fn reason(allocators: &[&Allocator]) -> Option<Reason> {
    let [first, ..] = allocators else {
        return None;
    };
    let told: Vec<_> = allocators
        .iter()
        .map(|allocator| format!("{} (used by {})", allocator.name, allocator.used_by))
        .collect();
    Some(Reason {
        code: "no-probe".into(),
        what: format!(
            "no probe for {}: it keeps what it took from the driver and hands it out in pieces, \
             and nobody else knows which of them are in use",
            told.join(" and ")
        ),
        remedy: format!(
            "register a probe called {:?} by gpu_leak_check::probe!, or have the test empty the \
             allocator's cache",
            first.name
        ),
    })
}
