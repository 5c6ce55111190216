//! Allocators whose reserved memory is larger than at the baseline.
//!
//! Reserved memory is reported as `retained` only to the extent that nothing live explains it. A
//! block explains the new segment that contains it, no matter what owns the block. Where segments
//! are unknown, as in CUDA's pools, a block explains at most one growth chunk of its pool. A run in
//! which other code in the process could have changed a reserve is not judged: it neither shows a
//! rise nor confirms the rise of another run.

use std::collections::BTreeSet;

use super::finding::Found;
use super::input::{CheckInput, Ownership, RunInput};
use super::rise::Rise;
use super::usage::{LayerName, LayerUsage};
use crate::ledger::{Kind, Layer, PoolName};
use crate::report::FindingKind;
use crate::units::{exact_size, total};

/// How much memory a pool of the driver takes from the device at once. A larger request is rounded
/// up to whole chunks. This was measured on an H200 with CUDA 13.0.
const GROWTH_CHUNK: u64 = 32 << 20;

/// Returns the findings about the part of each reserve that no live allocation explains.
pub(crate) fn findings(input: &CheckInput) -> Vec<Found> {
    if lacks_confirmation(input) {
        return Vec::new();
    }
    let judged = rises(input, is_alone);
    judged
        .iter()
        .filter_map(|rise| finding(rise, input))
        .collect()
}

/// Whether nothing else in the process could change a reserve in this run.
fn is_alone(run: &RunInput) -> bool {
    !run.others.may_have_moved_sums()
}

/// Whether only one of several runs can be judged, which is not enough to detect repetition.
fn lacks_confirmation(input: &CheckInput) -> bool {
    let runs = input.judged_runs();
    runs.len() > 1 && runs.iter().filter(|run| is_alone(run)).count() == 1
}

/// Returns notes about reserves that rose while other code in the process could have changed them.
pub(crate) fn notes(input: &CheckInput) -> Vec<String> {
    let is_unjudged = |run: &RunInput| lacks_confirmation(input) || !is_alone(run);
    let of_others = rises(input, is_unjudged);
    let note = |rise: &Rise| {
        format!(
            "{} on {} reserves {} more than before the test; this was not judged, because \
             something outside this check may have reserved it",
            rise.name,
            rise.place,
            exact_size(rise.most())
        )
    };
    of_others.iter().map(note).collect()
}

/// Whether a third run must decide, because only the second of two runs shows a rise, or because
/// only one of the runs could be judged.
pub(crate) fn is_undecided(input: &CheckInput) -> bool {
    let rises = rises(input, is_alone);
    rises.iter().any(Rise::is_undecided) || (lacks_confirmation(input) && !rises.is_empty())
}

fn finding(rise: &Rise, input: &CheckInput) -> Option<Found> {
    let mut found = rise.finding(FindingKind::Retained, input)?;
    let finding = &mut found.finding;
    finding.pool = rise.name.pool();
    if input.facts.reserved_tolerance != 0 && finding.kind.is_failure() {
        let allowed = exact_size(input.facts.reserved_tolerance);
        finding.notes.push(format!(
            "this is more than the reserved_tolerance of {allowed}"
        ));
    }
    Some(found)
}

/// Returns the unexplained rises that exceed the tolerance of their layer and place, in the runs
/// for which `is_selected` returns `true`. The tolerance applies to each run or, with rounds, to
/// the sum of all rounds.
fn rises(input: &CheckInput, is_selected: impl Fn(&RunInput) -> bool) -> Vec<Rise> {
    let runs = input.judged_runs().iter().filter(|run| is_selected(run));
    let all = Rise::all(runs, |run, usage| match is_kept_by_broken(usage, run) {
        true => 0,
        false => risen(usage, run, input),
    });
    let is_tolerated = |rise: &Rise, run: usize| {
        let key = |it: &Rise| (it.name.layer(), it.place);
        let of_layer = all.iter().filter(|it| key(it) == key(rise));
        let rises = of_layer.flat_map(|it| match input.facts.rounds > 1 {
            true => &it.bytes[..],
            false => &it.bytes[run..=run],
        });
        total(rises.copied()) <= input.facts.reserved_tolerance
    };
    let beyond = all.iter().map(|rise| {
        let bytes = rise.bytes.iter().enumerate();
        let bytes = bytes.map(|(run, bytes)| if is_tolerated(rise, run) { 0 } else { *bytes });
        Rise {
            bytes: bytes.collect(),
            ..rise.clone()
        }
    });
    beyond.filter(|rise| rise.most() != 0).collect()
}

/// Returns by how much a reserve rose in a run beyond the amount that live blocks explain.
fn risen(usage: &LayerUsage, run: &RunInput, input: &CheckInput) -> u64 {
    let more = more_reserved(usage, run);
    if more == 0 {
        return 0;
    }
    more.saturating_sub(explained(usage, run, input, |_| true))
}

/// Returns how many more bytes are reserved than at the baseline, without the bytes that are not
/// charged to the run. Returns 0 for CUDA's pools if a stream was being captured, because these
/// pools could not be emptied.
pub(super) fn more_reserved(usage: &LayerUsage, run: &RunInput) -> u64 {
    if run.is_capturing && matches!(usage.name, LayerName::Pool(_)) {
        return 0;
    }
    let more = run.baseline.rise_to(usage, LayerUsage::reserve);
    more.saturating_sub(run.failed_for(usage, |sum| sum.reserved))
}

/// Whether any allocator has reserved more than at the baseline.
pub fn is_more_reserved(run: &RunInput) -> bool {
    run.end
        .layers
        .iter()
        .any(|usage| more_reserved(usage, run) != 0)
}

/// Adds a note to the first finding that pins a reserve. The note says how much memory the finding
/// keeps from being released.
pub(crate) fn note_what_is_pinned(input: &CheckInput, found: &mut [Found]) {
    let run = input.first();
    for usage in &run.end.layers {
        let layer = usage.name.layer();
        let pins = |found: &&mut Found| {
            let finding = &found.finding;
            let is_here = finding.layer == layer && finding.place == usage.place;
            is_here
                && finding
                    .resource
                    .is_some_and(|kind| may_lie_in(&usage.name, kind))
        };
        let Some(pinning) = found.iter_mut().find(pins) else {
            continue;
        };
        let is_own = |owner: &Ownership| !matches!(owner, Ownership::Another);
        let pinned = more_reserved(usage, run).min(explained(usage, run, input, is_own));
        if pinned != 0 {
            pinning.finding.notes.push(format!(
                "prevents {} of the memory reserved by {} from being released",
                exact_size(pinned),
                usage.name
            ));
        }
    }
}

/// Returns how much of a reserve is explained by live records whose owners satisfy `counts`.
fn explained(
    usage: &LayerUsage,
    run: &RunInput,
    input: &CheckInput,
    counts: impl Fn(&Ownership) -> bool,
) -> u64 {
    let sum = run.baseline.rise_to(usage, |it| it.allocated);
    let layer = usage.name.layer();
    let blocks = run.live.iter().filter(|live| {
        let made = &live.record.made;
        let is_here = made.layer == layer && made.place == usage.place;
        // Leaks of earlier runs are part of the memory already reserved at this run's baseline.
        let is_new = live.record.sequence >= run.began;
        is_here && is_new && counts(&live.owner) && may_lie_in(&usage.name, made.kind)
    });
    if !run.segments.has_any_of(layer, usage.place) {
        let chunks = blocks.map(|live| chunk(live.record.made.bytes));
        // Some blocks are not reported individually. Together they explain at most one chunk more
        // than their sum.
        let of_sum = match (&usage.name, usage.reported) {
            (LayerName::Probe(_), None) if sum != 0 => chunk(sum),
            _ => 0,
        };
        return total(chunks).saturating_add(of_sum);
    }
    let mut segments = BTreeSet::new();
    for live in blocks {
        let address = live.record.made.key.value();
        segments.extend(run.segments.segment_of(layer, usage.place, address));
    }
    // The bytes of a segment that existed at the baseline are not part of the rise.
    let grown = |(start, end): (u64, u64)| {
        let before = run.segments_before.segment_of(layer, usage.place, start);
        let was = before.map_or(0, |(start, end)| end.saturating_sub(start));
        end.saturating_sub(start).saturating_sub(was)
    };
    let explained = total(segments.into_iter().map(grown));
    // If blocks are not reported individually, their segments are unknown.
    match usage.reported {
        None if sum > input.facts.tolerance => u64::MAX,
        None if sum != 0 => explained.saturating_add(chunk(sum)),
        _ => explained,
    }
}

/// Returns how much a pool reserves for a block of this size.
const fn chunk(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(GROWTH_CHUNK) {
        Some(0) => GROWTH_CHUNK,
        Some(chunks) => chunks,
        None => u64::MAX,
    }
}

/// Whether a resource of this kind, in the same layer and place, can be inside this reserve.
fn may_lie_in(name: &LayerName, kind: Kind) -> bool {
    match name {
        // Graph memory has its own pool.
        LayerName::Pool(PoolName::Graph) => kind == Kind::Graph,
        LayerName::Pool(_) => kind == Kind::StreamOrdered,
        LayerName::Layer(_) | LayerName::Probe(_) => kind == Kind::Block,
    }
}

/// Whether this is a pool that could not be emptied, because its context is broken. Such a context
/// cannot be synchronised, so stream-ordered frees never complete.
fn is_kept_by_broken(usage: &LayerUsage, run: &RunInput) -> bool {
    let broken = run.broken_inside.or(run.broken_before);
    usage.name.layer() == Layer::DRIVER && broken.is_some_and(|broken| broken.place == usage.place)
}

/// Whether a pool of a broken context holds more than before. This proves nothing, because the pool
/// could not be emptied.
pub(crate) fn is_kept_by_a_broken_context(input: &CheckInput) -> bool {
    input.runs.iter().any(|run| {
        let holds_more =
            |usage: &LayerUsage| is_kept_by_broken(usage, run) && risen(usage, run, input) != 0;
        run.end.layers.iter().any(holds_more)
    })
}

#[cfg(test)]
mod tests {
    use super::findings;
    use crate::judge::Segment;
    use crate::judge::input::{CheckInput, LiveRecord, Ownership, RunInput};
    use crate::judge::usage::{LayerName, LayerUsage, Usage};
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space};
    use crate::ledger::{Kind, Layer, Place, PoolName, Record};
    use crate::report::FindingKind;

    const SEGMENT: u64 = 1 << 20;

    /// Returns a run in which an allocator takes two segments, one of them for a block, in addition
    /// to those of the earlier runs.
    fn run(layer: Layer, at: u64) -> RunInput {
        let place = Place::cuda(0);
        let address = |segment: u64| 0x1000_0000 + segment * SEGMENT;
        let usage = |reserved| Usage {
            layers: vec![LayerUsage {
                name: LayerName::Probe(layer),
                place,
                allocated: 64 * at,
                peak: None,
                reserved: Some(reserved),
                reported: Some(64 * at),
                in_motion: 0,
                rounding: 0,
            }],
            ..Usage::default()
        };
        let block = |run: u64| {
            let made = Creation {
                key: Key::new(Space::Observed(layer), address(2 * run)),
                kind: Kind::Block,
                layer,
                place,
                bytes: 64,
                context: ContextUid::default(),
                stream: 0,
                pool: 0,
                caller: Caller::default(),
            };
            let sequence = 10 * run + 1;
            LiveRecord {
                record: Record { sequence, made },
                owner: Ownership::HandedOver,
            }
        };
        let mut input = RunInput {
            began: 10 * at,
            as_expected: true,
            baseline: usage(2 * at * SEGMENT),
            end: usage(2 * (at + 1) * SEGMENT),
            live: (0..=at).map(block).collect(),
            ..RunInput::default()
        };
        let segments = (0..2 * (at + 1)).map(|segment| Segment {
            address: address(segment),
            bytes: SEGMENT,
        });
        input
            .segments
            .add(layer, place, &segments.collect::<Vec<_>>());
        input
    }

    #[test]
    fn leaks_of_earlier_runs_do_not_explain_a_run_s_reserve() {
        let layer = Layer::allocator("reserve-runs");
        let input = CheckInput {
            runs: (0..2).map(|at| run(layer, at)).collect(),
            ..CheckInput::default()
        };
        let found = findings(&input);
        let reported = found.iter().map(|it| (it.finding.kind, it.finding.bytes));
        assert_eq!(
            reported.collect::<Vec<_>>(),
            [(FindingKind::Retained, SEGMENT)]
        );
    }

    #[test]
    fn a_pool_that_could_not_be_emptied_is_not_judged() {
        let pool = |reserved| Usage {
            layers: vec![LayerUsage {
                reserved: Some(reserved),
                ..LayerUsage::new(LayerName::Pool(PoolName::Graph), Place::cuda(0))
            }],
            ..Usage::default()
        };
        for (is_capturing, count) in [(false, 1), (true, 0)] {
            let run = RunInput {
                as_expected: true,
                baseline: pool(0),
                end: pool(SEGMENT),
                is_capturing,
                ..RunInput::default()
            };
            let input = CheckInput {
                runs: vec![run],
                ..CheckInput::default()
            };
            assert_eq!(findings(&input).len(), count);
            let notes = crate::judge::judge(&input).notes;
            assert_eq!(notes.iter().any(|it| it.contains("captured")), is_capturing);
        }
    }
}
