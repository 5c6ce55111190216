//! Memory that a known caching allocator holds and no probe can tell of.

use super::names::Names;
use crate::judge::{Held, What};
use crate::ledger::Layer;
use crate::report::allocators::Allocator;
use crate::report::model::Reason;

/// Takes out what was taken through a caching allocator without a probe, and returns the
/// allocators; those called `probed` have one.
///
/// Its blocks cannot be judged, and its segments are no leaks: they stay for the next block. Looks
/// the stacks up, so call it when there is nothing left to wait for.
pub(crate) fn take_uncovered(
    held: &mut Vec<Held>,
    probed: &[String],
    names: &dyn Names,
) -> Vec<&'static Allocator> {
    let mut uncovered: Vec<&'static Allocator> = Vec::new();
    held.retain(|held| {
        let Some(allocator) = uncovered_allocator(held, probed, names) else {
            return true;
        };
        if !uncovered.contains(&allocator) {
            uncovered.push(allocator);
        }
        false
    });
    uncovered
}

fn uncovered_allocator(
    held: &Held,
    probed: &[String],
    names: &dyn Names,
) -> Option<&'static Allocator> {
    let is_memory = matches!(
        held.key.what,
        What::Live(kind) | What::EndedWithContext(kind, _) if !kind.is_handle()
    );
    if !is_memory || held.key.layer != Layer::DRIVER {
        return None;
    }
    let allocator = names.allocator(held.key.stack)?;
    let has_a_probe = probed.iter().any(|name| name == allocator.name);
    (!has_a_probe).then_some(allocator)
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
