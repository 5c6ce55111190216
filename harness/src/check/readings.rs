//! Reads, empties and synchronises everything that can hold GPU memory.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use super::scopes::open::Token;
use crate::api::cuda;
use crate::device::{memory, pools, synchronise};
use crate::judge::{ContextError, LayerName, LayerUsage, SegmentMap, Usage, rounding};
use crate::ledger::{self, Layer, Place, Record, ScopeId, Snapshot, UsageKey};
use crate::probe::{self, Probe};
use crate::sync::{Mutex, locked};
use crate::units::total;

/// Waits for the work that `scope` may have on the devices. Returns the error of the first broken
/// context, if there is one.
pub(crate) fn synchronise(scope: ScopeId) -> Option<ContextError> {
    // If the ends of contexts are not intercepted, a context in the ledger may no longer exist.
    if !cuda::is_intercepted() {
        return None;
    }
    let broken = synchronise::contexts(|record| record.made.caller.scope == scope);
    broken.into_iter().next()
}

/// Frees the unused memory that allocators with a probe have cached.
pub(crate) fn empty_caches() {
    note_reserves();
    for (probe, place) in probes() {
        ask(probe, |probe| probe.empty_cache(place));
    }
}

/// Calls a function of a probe. The function may start a thread on which the allocator works for
/// all tests, so such a thread must not belong to the check that happens to call first.
pub(super) fn ask<R>(
    probe: &'static dyn Probe,
    function: impl FnOnce(&'static dyn Probe) -> R,
) -> R {
    let _token = Token::of_any_check();
    function(probe)
}

/// Returns the probes, each with every place where its allocator has memory.
fn probes() -> impl Iterator<Item = (&'static dyn Probe, Place)> {
    probe::all().into_iter().flat_map(|probe| {
        let places: BTreeSet<Place> = ask(probe, Probe::places).into_iter().collect();
        places.into_iter().map(move |place| (probe, place))
    })
}

/// An allocator with a probe, at a place where it has memory.
struct ProbedLayer {
    layer: Layer,
    place: Place,
    /// The probes of the allocator, each of whose pools may have one.
    probes: Vec<&'static dyn Probe>,
}

fn probed_layers() -> impl Iterator<Item = ProbedLayer> {
    let mut layers: BTreeMap<(Layer, Place), Vec<&'static dyn Probe>> = BTreeMap::new();
    for (probe, place) in probes() {
        let layer = Layer::allocator(probe.name());
        layers.entry((layer, place)).or_default().push(probe);
    }
    layers
        .into_iter()
        .map(|((layer, place), probes)| ProbedLayer {
            layer,
            place,
            probes,
        })
}

/// All usage before the body of a run, and the number of the ledger's next event when it was read.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) usage: Usage,
    pub(crate) at: u64,
}

/// Returns all figures: those in a snapshot of the ledger, and readings of everything else.
/// `beside_others` says whether other checks may be active in this process; `baseline` is the
/// baseline of the run, if the run is over. With `empties`, the driver's pools first release their
/// unused memory. Call this after [`empty_caches`], because an allocator's segments may come from
/// one of these pools.
pub(crate) fn read(
    snapshot: &Snapshot,
    beside_others: bool,
    empties: bool,
    baseline: Option<&Baseline>,
) -> Usage {
    let mut usage = of_counters(snapshot, &probed());
    let layers = probed_layers().map(|probed| match beside_others {
        true => layer_in_motion(&probed, baseline),
        false => layer(&probed, baseline),
    });
    usage.layers.extend(layers);
    // If the driver's calls are not intercepted, it is unknown which contexts have to be
    // synchronised, and the reserve of a pool that is not synchronised means nothing.
    if cuda::is_intercepted() {
        usage.layers.extend(pools::readings(empties));
        usage.whole_devices = memory::readings();
    }
    usage
}

/// Returns the ledger's own counts, except those of the allocators called `probed`, which have
/// their own readings.
pub(crate) fn of_counters(snapshot: &Snapshot, probed: &[String]) -> Usage {
    let mut usage = Usage::default();
    for &(UsageKey { layer, place }, counted) in &snapshot.usage {
        let Some(layer) = layer else {
            usage.handles.push((place, counted));
            continue;
        };
        let name = layer.allocator_name();
        if probed.iter().any(|probed| name == Some(probed)) {
            continue;
        }
        usage.layers.push(LayerUsage {
            allocated: counted.live,
            peak: Some(counted.peak),
            ..LayerUsage::new(LayerName::Layer(layer), place)
        });
    }
    usage
}

/// Reads the current usage of the allocators with a probe, without calling the driver.
pub(crate) fn read_probed() -> Usage {
    Usage {
        layers: probed_layers().map(|it| layer(&it, None)).collect(),
        ..Usage::default()
    }
}

/// An allocator that other threads use is read until its sum is as expected: at most this many
/// times without pauses, and then at most as many times with pauses.
const READINGS: usize = 16;

/// Reads the usage of an allocator as [`layer`] does, while other threads may be using the
/// allocator.
///
/// A thread may be between an allocation and its report. Blocks are reported after they are handed
/// out, and are reported as freed before they can be handed out again. So the sum may be too large
/// for a moment, but is never too small. Of several readings, the one with the least unreported
/// memory is closest to the truth, and the differences between readings show how much is in motion.
fn layer_in_motion(probed: &ProbedLayer, baseline: Option<&Baseline>) -> LayerUsage {
    let mut least = layer(probed, baseline);
    let expected = unreported_at(baseline, &least);
    let mut most_unreported = least.unreported();
    for reading in 1..2 * READINGS {
        if least.reported.is_none() || least.unexplained() <= expected {
            break;
        }
        match reading < READINGS {
            true => thread::yield_now(),
            false => thread::sleep(Duration::from_millis(1)),
        }
        let now = layer(probed, baseline);
        most_unreported = most_unreported.max(now.unreported());
        if now.unexplained() < least.unexplained() {
            least = now;
        }
    }
    least.in_motion = most_unreported - least.unreported();
    least
}

/// Returns how much of the memory of this allocator was unreported at the baseline.
fn unreported_at(baseline: Option<&Baseline>, usage: &LayerUsage) -> u64 {
    let was = baseline.and_then(|baseline| baseline.usage.layer(&usage.name, usage.place));
    was.map_or(0, LayerUsage::unreported)
}

fn layer(probed: &ProbedLayer, baseline: Option<&Baseline>) -> LayerUsage {
    let ProbedLayer { layer, place, .. } = *probed;
    let sum = |figure: fn(&dyn Probe, Place) -> u64| {
        let probes = probed.probes.iter();
        total(probes.map(|probe| ask(*probe, |probe| figure(probe, place))))
    };
    let counted = || ledger::live().bytes(layer, place);
    let before = counted();
    let allocated = sum(|probe, place| probe.allocated(place));
    let mut counted = counted();
    // Blocks that were reported as freed in the meantime may already be missing from the sum.
    counted.live = counted.live.min(before.live);
    let counted = (counted.peak != 0).then_some(counted);
    let mut usage = LayerUsage {
        allocated,
        // The peak of the reported blocks may be lower, because the probe counts what the allocator
        // adds to them.
        peak: counted.map(|counted| counted.peak.max(allocated)),
        reserved: Some(sum(|probe, place| probe.reserved(place))),
        reported: counted.map(|counted| counted.live),
        ..LayerUsage::new(LayerName::Probe(layer), place)
    };
    if let Some(&Baseline { at, .. }) = baseline
        && usage.reported.is_some()
        && usage.unreported() > unreported_at(baseline, &usage)
    {
        let is_new = |Record { sequence, made }: &Record| {
            *sequence >= at && (made.layer, made.place) == (layer, place)
        };
        let new = ledger::live().select(is_new).into_iter();
        usage.rounding = rounding(new.map(|record| record.made.bytes));
    }
    usage
}

/// Returns the names of the allocators that have a probe.
pub(crate) fn probed() -> Vec<String> {
    let probes = probe::all().into_iter();
    probes.map(|probe| probe.name().to_owned()).collect()
}

/// Returns the memory that the allocators with a probe hold from the layer below.
pub(crate) fn segments() -> SegmentMap {
    let mut segments = SegmentMap::default();
    for (probe, place) in probes() {
        let layer = Layer::allocator(probe.name());
        segments.add(layer, place, &ask(probe, |probe| probe.segments(place)));
    }
    segments
}

/// The runs that watch the reserves, each with the highest reserves that were read.
static WATCHING: Mutex<Vec<(ScopeId, Usage)>> = Mutex::new(Vec::new());

/// A guard: while it exists, the highest reserves are kept for one run, which has a limit on them.
///
/// What the run reads at its end would not suffice. CUDA keeps one peak of each pool, which every
/// such run resets when it begins. For an allocator with a probe, only the current reserve is
/// known, and it is lost when the allocator's cache is emptied. Other checks may do both in the
/// meantime, so the reserves are read for all runs that watch them before either happens.
#[derive(Debug)]
pub(super) struct ReserveWatch(ScopeId);

impl ReserveWatch {
    pub(super) fn begin(scope: ScopeId) -> Self {
        note_reserves();
        if cuda::is_intercepted() {
            pools::restart_most_reserved();
        }
        locked(&WATCHING).push((scope, Usage::default()));
        Self(scope)
    }

    /// Ends the watch, and returns the highest reserves.
    pub(super) fn end(&self) -> Usage {
        note_reserves();
        let mut watching = locked(&WATCHING);
        let own = watching.iter().position(|(scope, _)| *scope == self.0);
        own.map_or_else(Usage::default, |at| watching.swap_remove(at).1)
    }
}

impl Drop for ReserveWatch {
    fn drop(&mut self) {
        locked(&WATCHING).retain(|(scope, _)| *scope != self.0);
    }
}

/// Reads the reserves for every run that watches them.
fn note_reserves() {
    if locked(&WATCHING).is_empty() {
        return;
    }
    // The probes are not called with the lock held, because they are the program's code.
    let mut now = read_probed();
    if cuda::is_intercepted() {
        now.layers.extend(pools::most_reserved());
    }
    for (_, most) in locked(&WATCHING).iter_mut() {
        for usage in &now.layers {
            let is_it = |it: &&mut LayerUsage| it.name == usage.name && it.place == usage.place;
            match most.layers.iter_mut().find(is_it) {
                Some(known) => known.reserved = known.reserved.max(usage.reserved),
                None => most.layers.push(usage.clone()),
            }
        }
    }
}
