//! Memory that a known caching allocator holds and no probe can tell of.

use crate::check::names::Names;
use crate::check::recording::Seen;
use crate::code::Code;
use crate::judge::{Claims, Held, What};
use crate::ledger::{Layer, Place};
use crate::report::allocators::Allocator;
use crate::report::model::Reason;

/// What is known of the probes of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probes<'a> {
    /// Their allocators' names.
    pub(crate) names: &'a [String],
    /// Their segments.
    pub(crate) claims: &'a Claims,
}

impl<'a> Probes<'a> {
    /// As they were seen.
    pub(crate) fn of(seen: &'a Seen) -> Self {
        Self {
            names: &seen.probed,
            claims: &seen.claims,
        }
    }

    fn has(&self, allocator: &Allocator) -> bool {
        self.names.iter().any(|name| name == allocator.name)
    }

    fn tell_of_segments(&self, allocator: &Allocator, place: Place) -> bool {
        self.claims
            .has_any_of(Layer::allocator(allocator.name), place)
    }
}

/// Takes out what was taken through a known caching allocator, and returns those that have no probe.
///
/// Its segments are no leaks: they stay for the next block. Looks the stacks up, so call it when
/// there is nothing left to wait for.
pub(crate) fn take_uncovered(
    held: &mut Vec<Held>,
    probes: &Probes<'_>,
    names: &dyn Names,
) -> Vec<&'static Allocator> {
    let mut uncovered: Vec<&'static Allocator> = Vec::new();
    held.retain(|held| {
        let Some(allocator) = known_allocator(held, names) else {
            return true;
        };
        if probes.has(allocator) {
            // Where the probe tells of segments, this is none of them, so it was forgotten. Else
            // it is one, judged with the allocator's figures.
            return probes.tell_of_segments(allocator, held.key.place);
        }
        if !uncovered.contains(&allocator) {
            uncovered.push(allocator);
        }
        false
    });
    uncovered
}

/// The known allocator that holds this.
fn known_allocator(held: &Held, names: &dyn Names) -> Option<&'static Allocator> {
    let is_memory = matches!(
        held.key.what,
        What::Live(kind) | What::EndedWithContext(kind, _) if !kind.is_handle()
    );
    if !is_memory || held.key.layer != Layer::DRIVER {
        return None;
    }
    names.allocator(held.key.stack)
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
    Some(Reason::new(
        Code::NoProbe,
        format!(
            "no probe for {}: it keeps what it took from the driver and hands it out in pieces, \
             and nobody else knows which of them are in use",
            told.join(" and ")
        ),
        format!(
            "register a probe called {:?} by gpu_leak_check::probe!, or have the test empty the \
             allocator's cache",
            first.name
        ),
    ))
}
