//! Tells the harness of this library: the one file that knows both.
//!
//! The caching allocator is the layer `allocator:gpu-leak-kernels`. Its blocks are reported one
//! by one; a probe claims the segments they come from. The memory of embedded devices is the
//! layer `allocator:embedded`, below it, as the CUDA driver is on a GPU.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};

use crate::memory::{Allocator, Policy};

const NAME: &str = "gpu-leak-kernels";

/// Without `programs` and `planted`: those are users of the library.
const OWN_SOURCES: &[&str] = &[
    "kernels/src/autograd/",
    "kernels/src/cuda/",
    "kernels/src/data/",
    "kernels/src/device.rs",
    "kernels/src/embedded/",
    "kernels/src/graph/",
    "kernels/src/memory/",
    "kernels/src/nn/",
    "kernels/src/optim/",
    "kernels/src/tensor/",
    "kernels/src/watch.rs",
];

static BLOCKS: Source = Source::new(NAME, OWN_SOURCES);
static EMBEDDED: Source = Source::new("embedded", OWN_SOURCES);

/// Reports what one allocator hands out and gets back.
#[derive(Debug)]
pub(crate) struct Reporter {
    source: &'static Source,
    place: Place,
}

impl Reporter {
    /// For the blocks of the caching allocator of a device.
    pub(crate) fn blocks(device: &str) -> Self {
        Self {
            source: &BLOCKS,
            place: place(device),
        }
    }

    /// For the segments of an embedded device.
    pub(crate) fn segments(device: &str) -> Self {
        Self {
            source: &EMBEDDED,
            place: place(device),
        }
    }

    /// After `bytes` at `address` were handed out.
    pub(crate) fn allocated(&self, address: u64, bytes: usize) {
        self.source.allocated(self.place, address, bytes as u64);
    }

    /// Before `address` can be handed out again.
    pub(crate) fn freed(&self, address: u64) {
        self.source.freed(address);
    }
}

/// `cuda:0`, `embedded:0`.
fn place(device: &str) -> Place {
    match device.strip_prefix("cuda:").map(str::parse) {
        Some(Ok(ordinal)) => Place::cuda(ordinal),
        _ => Place::named(device),
    }
}

/// The caching allocators of all devices that are alive.
static LIVE: Mutex<Vec<(Place, Weak<Allocator>)>> = Mutex::new(Vec::new());

/// Lets the probe read an allocator for as long as it lives.
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
        let all = self.at(place);
        all.map(|it| it.lock().tallies().allocated_bytes.current())
            .sum()
    }

    fn reserved(&self, place: Place) -> u64 {
        let all = self.at(place);
        all.map(|it| it.lock().tallies().reserved_bytes.current())
            .sum()
    }

    fn segments(&self, place: Place) -> Vec<Segment> {
        let snapshots = self.at(place).map(|it| it.lock().blocks().snapshot());
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
            // What a failed free leaves shows as reserved.
            let _ = allocator.lock().empty();
        }
    }
}
