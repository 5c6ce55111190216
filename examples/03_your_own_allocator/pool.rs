//! A pool of slabs, and everything that makes it visible to checks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};

const PAGE: u64 = 4096;
const PAGES: u64 = 16;
const SLAB: u64 = PAGE * PAGES;

/// A slab, with a record of which pages are in use.
struct Slab {
    memory: Box<[u8]>,
    used: [bool; PAGES as usize],
    /// Whether the slab is kept when the pool is emptied.
    kept: bool,
}

impl Slab {
    fn new(kept: bool) -> Self {
        Self {
            memory: vec![0; SLAB as usize].into_boxed_slice(),
            used: [false; PAGES as usize],
            kept,
        }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr().addr() as u64
    }
}

/// The slabs of the pool, by address.
pub(crate) struct Pool(Mutex<BTreeMap<u64, Slab>>);

pub(crate) static POOL: Pool = Pool(Mutex::new(BTreeMap::new()));

/// The first half of the integration: the pool reports each page under the pool's own name. Reports
/// skip the frames of this file, so that they point at the line that uses the pool.
static SOURCE: Source = Source::new("slabs", &["03_your_own_allocator/pool.rs"]);

/// The place of the pages. This pool simulates its own device; on a GPU, use `Place::cuda(0)`.
fn place() -> Place {
    Place::named("npu:0")
}

impl Pool {
    /// Hands out a page of 4 KiB.
    pub(crate) fn take(&self) -> u64 {
        let mut slabs = self.slabs();
        let has_room = |slab: &Slab| slab.used.contains(&false);
        if !slabs.values().any(has_room) {
            let slab = Slab::new(false);
            slabs.insert(slab.address(), slab);
        }
        let slab = slabs.values_mut().find(|slab| has_room(slab));
        let slab = slab.expect("there is room now");
        let page = slab.used.iter().position(|used| !used);
        let page = page.expect("there is room");
        slab.used[page] = true;
        let address = slab.address() + page as u64 * PAGE;
        SOURCE.allocated(place(), address, PAGE);
        address
    }

    pub(crate) fn give_back(&self, address: u64) {
        // Report the free first, because the page may have a new owner afterwards.
        let mut slabs = self.slabs();
        SOURCE.freed(address);
        let (start, slab) = slabs.range_mut(..=address).next_back().expect("a slab");
        slab.used[((address - start) / PAGE) as usize] = false;
    }

    /// Allocates a slab in advance. It stays allocated when the pool is emptied.
    pub(crate) fn warm_up(&self) {
        let slab = Slab::new(true);
        self.slabs().insert(slab.address(), slab);
    }

    fn slabs(&self) -> MutexGuard<'_, BTreeMap<u64, Slab>> {
        self.0.lock().expect("nobody panics here")
    }
}

/// The second half of the integration: the figures that only the pool knows.
impl Probe for Pool {
    fn name(&self) -> &'static str {
        "slabs"
    }

    fn places(&self) -> Vec<Place> {
        vec![place()]
    }

    fn allocated(&self, _: Place) -> u64 {
        let slabs = self.slabs();
        let used = slabs.values().flat_map(|slab| slab.used);
        used.filter(|used| *used).count() as u64 * PAGE
    }

    fn reserved(&self, _: Place) -> u64 {
        self.slabs().len() as u64 * SLAB
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        let slabs = self.slabs();
        let segment = |&address| Segment {
            address,
            bytes: SLAB,
        };
        slabs.keys().map(segment).collect()
    }

    fn empty_cache(&self, _: Place) {
        self.slabs()
            .retain(|_, slab| slab.kept || slab.used.contains(&true));
    }
}

gpu_leak_check::probe!(&POOL);
