//! Allows the harness to read the figures and segments of the caching allocators.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use gpu_leak_check::Place;
use gpu_leak_check::probe::{Probe, Segment};

use crate::allocator::{Allocator, Policy};
use crate::watch::{NAME, place};

/// The caching allocators of all live devices.
static LIVE: Mutex<Vec<(Place, Weak<Allocator>)>> = Mutex::new(Vec::new());

/// Allows the probe to read an allocator for as long as the allocator lives.
pub(crate) fn register(allocator: &Arc<Allocator>) {
    if allocator.policy() == Policy::Caching {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|(_, weak)| weak.strong_count() > 0);
        live.push((place(allocator.device()), Arc::downgrade(allocator)));
    }
}

struct Allocators;

static PROBE: Allocators = Allocators;
gpu_leak_check::probe!(&PROBE);

impl Allocators {
    fn live(&self) -> Vec<(Place, Arc<Allocator>)> {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let living = live.iter().map(|(place, weak)| (*place, weak.upgrade()));
        living
            .filter_map(|(place, allocator)| Some((place, allocator?)))
            .collect()
    }

    fn at(&self, place: Place) -> impl Iterator<Item = Arc<Allocator>> {
        let live = self.live().into_iter();
        live.filter_map(move |(at, allocator)| (at == place).then_some(allocator))
    }
}

impl Probe for Allocators {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self) -> Vec<Place> {
        let mut places: Vec<_> = self.live().into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn allocated(&self, place: Place) -> u64 {
        self.at(place).map(|it| it.lock().allocated()).sum()
    }

    fn reserved(&self, place: Place) -> u64 {
        self.at(place).map(|it| it.lock().reserved()).sum()
    }

    fn segments(&self, place: Place) -> Vec<Segment> {
        let snapshots = self.at(place).map(|it| it.lock().snapshot());
        let segments = snapshots.flat_map(|snapshot| snapshot.segments);
        segments
            .map(|segment| Segment {
                address: segment.address,
                bytes: segment.total_size,
            })
            .collect()
    }

    fn empty_cache(&self, place: Place) {
        for allocator in self.at(place) {
            // An error can be ignored, because memory left by a failed free is still counted as
            // reserved.
            let _ = allocator.lock().empty();
        }
    }
}
