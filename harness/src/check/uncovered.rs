//! Memory that a known caching allocator holds and no probe can tell of.

use crate::judge::{Held, What};
use crate::ledger::{self, Layer};
use crate::probe;
use crate::report::allocators::{self, Allocator};
use crate::report::model::Reason;

/// Takes out what was taken through a known caching allocator, and returns those that have no probe.
///
/// Its segments are no leaks: they stay for the next block. Looks the stacks up, so call it when
/// there is nothing left to wait for.
pub(crate) fn take_uncovered(held: &mut Vec<Held>) -> Vec<&'static Allocator> {
    let mut uncovered: Vec<&'static Allocator> = Vec::new();
    held.retain(|held| {
        let Some(allocator) = known_allocator(held) else {
            return true;
        };
        let mut probes = probe::all().into_iter();
        match probes.find(|probe| probe.name() == allocator.name) {
            // It is no segment of which the probe tells, so it was forgotten.
            Some(probe) if !probe.segments(held.key.place).is_empty() => true,
            // A segment, though the probe cannot tell of any: judged with the allocator's figures.
            Some(_) => false,
            None => {
                if !uncovered.contains(&allocator) {
                    uncovered.push(allocator);
                }
                false
            }
        }
    });
    uncovered
}

/// The known allocator that holds this.
fn known_allocator(held: &Held) -> Option<&'static Allocator> {
    let is_memory = matches!(
        held.key.what,
        What::Live(kind) | What::EndedWithContext(kind, _) if !kind.is_handle()
    );
    if !is_memory || held.key.layer != Layer::DRIVER {
        return None;
    }
    allocators::allocator(ledger::live().stacks().frames(held.key.stack))
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
