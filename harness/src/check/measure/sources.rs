//! Reading, emptying and quieting everything that can hold GPU memory.

use crate::api::cuda;
use crate::device::{memory, pools, quiesce};
use crate::judge::{Claims, Level, LevelName, Reading, Whole};
use crate::ledger::{self, Kind, Layer, Place, ScopeId};
use crate::probe::{self, Probe};

/// A context in which every call fails from now on.
pub(crate) use crate::device::quiesce::Poisoned;

/// Waits for the work that `scope` may have on the devices.
pub(crate) fn synchronise(scope: ScopeId) -> Vec<Poisoned> {
    quiesce::synchronise(|record| record.made.caller.scope == scope)
}

/// Gives back what is cached and in no use, innermost cache first: an allocator's segments may
/// come from a driver's pool.
pub(crate) fn empty_caches() {
    for probe in probe::all() {
        for place in probe.places() {
            probe.empty_cache(place);
        }
    }
    pools::empty(&pools_at_rest());
}

/// Every figure now.
pub(crate) fn read() -> Reading {
    let counters = ledger::live().counters();
    let probes = probe::all();
    let mut reading = read_counters(&probed());
    for probe in probes {
        let peak = |place| {
            let counted = counters.bytes(Layer::allocator(probe.name()), place);
            (counted.peak != 0).then_some(counted.peak)
        };
        reading.levels.extend(
            probe
                .places()
                .into_iter()
                .map(|place| level(probe, place, peak(place))),
        );
    }
    reading
        .levels
        .extend(pools_at_rest().into_iter().map(pool_level));
    reading.wholes = wholes();
    reading
}

/// What the ledger itself counts, without the layers of the allocators called `probed`, which tell
/// of themselves.
pub(crate) fn read_counters(probed: &[String]) -> Reading {
    let counters = ledger::live().counters();
    let mut reading = Reading::default();
    for layer in (0..Layer::LIMIT).filter_map(Layer::known) {
        if probed
            .iter()
            .any(|name| layer.allocator_name() == Some(name))
        {
            continue;
        }
        for place in (0..Place::LIMIT).map(Place::at) {
            let counted = counters.bytes(layer, place);
            if counted.peak != 0 {
                reading.levels.push(Level {
                    name: LevelName::Layer(layer),
                    place,
                    allocated: counted.live,
                    peak: Some(counted.peak),
                    reserved: None,
                });
            }
        }
    }
    reading.handles = (0..Place::LIMIT)
        .map(Place::at)
        .map(|place| (place, counters.handles(place)))
        .filter(|(_, counted)| counted.peak != 0)
        .collect();
    reading
}

/// The whole devices.
fn wholes() -> Vec<Whole> {
    if !cuda::is_heard() {
        return Vec::new();
    }
    let ledger = ledger::live();
    let live = |kind| ledger.counters().live(kind);
    let devices = memory::readings().into_iter();
    devices
        .map(|device| Whole {
            place: device.place,
            context: device.context,
            used: device.used,
            limits: device.limits,
            elsewhere: elsewhere(device.place),
            contexts: contexts_on(device.place),
            code: live(Kind::Module) + live(Kind::Library),
        })
        .collect()
}

fn contexts_on(place: Place) -> u64 {
    let contexts = ledger::live().contexts();
    contexts
        .iter()
        .filter(|context| context.place == place)
        .count() as u64
}

/// Bytes of the driver's layer that may lie in the host's memory or another process's, or that a
/// pool's own figures count.
fn elsewhere(place: Place) -> u64 {
    const KINDS: [Kind; 3] = [Kind::Managed, Kind::Imported, Kind::Graph];
    let ledger = ledger::live();
    // A search visits every record; most programs have none of these.
    if KINDS.iter().all(|kind| ledger.counters().live(*kind) == 0) {
        return 0;
    }
    let there = ledger.select(|record| {
        let made = &record.made;
        made.layer == Layer::DRIVER && made.place == place && KINDS.contains(&made.kind)
    });
    there.iter().map(|record| record.made.bytes).sum()
}

/// Lets the reserves that [`read_most_reserved`] tells begin anew.
pub(crate) fn restart_most_reserved() {
    if cuda::is_heard() {
        pools::restart_most_reserved();
    }
}

/// The most that each reserve has been. For a probed allocator that is what it holds now: read
/// before its cache is emptied.
pub(crate) fn read_most_reserved() -> Reading {
    let pools = if cuda::is_heard() {
        pools::most_reserved()
    } else {
        Vec::new()
    };
    let mut reading = read_probed();
    reading.levels.extend(pools.into_iter().map(pool_level));
    reading
}

/// What the probed allocators hold now. Asks no driver.
pub(crate) fn read_probed() -> Reading {
    let levels = probe::all().into_iter().flat_map(|probe| {
        let places = probe.places().into_iter();
        places.map(|place| level(probe, place, None))
    });
    Reading {
        levels: levels.collect(),
        ..Reading::default()
    }
}

/// The driver's pools. Where its calls are not heard nobody knows which contexts to wait for, and the reserve
/// of a pool that nobody waited for says nothing.
fn pools_at_rest() -> Vec<pools::PoolReading> {
    if cuda::is_heard() {
        pools::readings()
    } else {
        Vec::new()
    }
}

fn pool_level(pool: pools::PoolReading) -> Level {
    Level {
        name: LevelName::Pool(pool.pool.to_string()),
        place: pool.place,
        allocated: pool.allocated,
        peak: None,
        reserved: Some(pool.reserved),
    }
}

fn level(probe: &dyn Probe, place: Place, peak: Option<u64>) -> Level {
    Level {
        name: LevelName::Probe(Layer::allocator(probe.name())),
        place,
        allocated: probe.allocated(place),
        peak,
        reserved: Some(probe.reserved(place)),
    }
}

/// The names of the allocators that have a probe.
pub(crate) fn probed() -> Vec<String> {
    let probes = probe::all().into_iter();
    probes.map(|probe| probe.name().to_owned()).collect()
}

/// What the probed allocators hold from the layer below.
pub(crate) fn claims() -> Claims {
    let mut claims = Claims::default();
    for probe in probe::all() {
        let layer = Layer::allocator(probe.name());
        for place in probe.places() {
            claims.add(layer, place, &probe.segments(place));
        }
    }
    claims
}
