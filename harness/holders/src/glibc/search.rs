//! The way from a program's own places to what it left behind.
//!
//! Breadth first, so that the nearest place is found; every word that may be the address of a block
//! is taken for one. From the places, not from all memory: a copy in a block that was freed is in
//! nobody's hands, and no place leads to it.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::heap::Heap;
use super::memory::{Memory, Pages, Seen};
use super::targets::{END, LOWEST, Targets};

/// From how far away a place may be named.
const DEEPEST: u32 = 6;
/// How many addresses are followed.
const MOST_BLOCKS: usize = 1 << 20;
/// How far before an address inside a block its header is looked for: a hash table is known by an
/// address behind its entries.
const FAR: u64 = 64 << 10;
/// After so many addresses in a region without a block, none is expected there.
const ENOUGH: u32 = 32;

/// Memory of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) addresses: Range<u64>,
    /// The place it is of, by its number.
    pub(super) place: usize,
}

/// What the driver's own blocks are known by. From one of them every address can be reached, for
/// its tables hold them all.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// Where its libraries lie: what points into them is a block of theirs.
    pub(super) libraries: Heap,
    /// Contexts: the blocks of what belongs to one point to it.
    pub(super) contexts: FxHashSet<u64>,
    /// All objects that are known: their handles are addresses of its blocks.
    pub(super) handles: FxHashSet<u64>,
}

/// How a target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// From which place.
    pub(super) place: usize,
    /// Through how many blocks.
    pub(super) blocks: u32,
}

impl Hit {
    /// Whether the place is near enough to be named.
    pub(super) fn is_near(&self) -> bool {
        self.blocks <= DEEPEST
    }
}

/// What a search came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// For each target the nearest place.
    pub(super) hits: Vec<Option<Hit>>,
    /// Whether everything was seen that can be reached.
    pub(super) complete: bool,
}

/// A search under way.
#[derive(Debug)]
pub(super) struct Search<'a, M> {
    pub(super) pages: &'a mut Pages<M>,
    pub(super) heap: &'a Heap,
    pub(super) driver: &'a Driver,
    pub(super) targets: &'a Targets,
}

/// What has been followed so far.
#[derive(Debug, Default)]
struct Known {
    addresses: FxHashSet<u64>,
    /// By the region's first address.
    regions: FxHashMap<u64, Met>,
}

/// What addresses in a region turned out to be.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    blocks: u32,
    others: u32,
}

/// A block to be looked into.
#[derive(Debug)]
struct Block {
    addresses: Range<u64>,
    place: usize,
}

/// What was seen in a stretch of memory.
#[derive(Debug, Default)]
struct Found {
    targets: Vec<usize>,
    pointers: Vec<u64>,
    is_the_driver_s: bool,
    names_a_context: bool,
}

impl<M: Memory> Search<'_, M> {
    /// Looks for all targets from `regions` on, until each finding has a place that leads to it.
    pub(super) fn run(mut self, regions: &[Region]) -> Outcome {
        let mut outcome = Outcome {
            hits: vec![None; self.targets.len()],
            complete: true,
        };
        let mut known = Known::default();
        let mut level = Vec::new();
        for region in regions {
            let found = self.look(&region.addresses, &mut outcome.complete);
            note(&mut outcome, &found, region.place, 0);
            self.follow(found.pointers, region.place, &mut known, &mut level);
        }
        for blocks in 1.. {
            if level.is_empty() || self.is_settled(&outcome) || self.pages.is_spent() {
                break;
            }
            // What is large takes long, and seldom is what leads on.
            level.sort_by_key(|block: &Block| block.addresses.end - block.addresses.start);
            let mut next = Vec::new();
            for block in level {
                let found = self.look(&block.addresses, &mut outcome.complete);
                if found.is_the_driver_s {
                    continue;
                }
                note(&mut outcome, &found, block.place, blocks);
                if !found.names_a_context {
                    self.follow(found.pointers, block.place, &mut known, &mut next);
                }
            }
            level = next;
        }
        outcome.complete &= level.is_empty()
            && known.addresses.len() < MOST_BLOCKS
            && !self.pages.is_spent()
            && !self.is_foreign(&known);
        outcome
    }

    /// Whether each finding has a place.
    fn is_settled(&self, outcome: &Outcome) -> bool {
        let mut open: FxHashSet<usize> = FxHashSet::default();
        let mut settled: FxHashSet<usize> = FxHashSet::default();
        for (at, hit) in outcome.hits.iter().enumerate() {
            let group = self.targets.group(at);
            match hit {
                Some(_) => settled.insert(group),
                None => open.insert(group),
            };
        }
        open.is_subset(&settled)
    }

    /// The targets and what may be pointers in a stretch of memory.
    fn look(&mut self, addresses: &Range<u64>, complete: &mut bool) -> Found {
        let mut found = Found::default();
        let mut is_cut = false;
        let (heap, driver, targets) = (self.heap, self.driver, self.targets);
        let all = self.pages.words(addresses.start, addresses.end, |_, word| {
            // Most words are numbers and text.
            if !(LOWEST..END).contains(&word) {
                return true;
            }
            if let Some(target) = targets.find(word) {
                found.targets.push(target);
                return true;
            }
            found.names_a_context |= driver.contexts.contains(&word);
            found.is_the_driver_s |= driver.libraries.region(word).is_some();
            if heap.region(word).is_some() && !driver.handles.contains(&word) {
                // More than can be followed need not be remembered.
                match found.pointers.len() {
                    ..MOST_BLOCKS => found.pointers.push(word),
                    _ => is_cut = true,
                }
            }
            true
        });
        *complete &= all == Seen::All && !is_cut;
        found
    }

    /// Has the blocks that `pointers` point into looked at, each once.
    fn follow(
        &mut self,
        pointers: Vec<u64>,
        place: usize,
        known: &mut Known,
        next: &mut Vec<Block>,
    ) {
        for pointer in pointers {
            if known.addresses.len() >= MOST_BLOCKS || self.pages.is_spent() {
                return;
            }
            let Some(region) = self.heap.region(pointer).map(|region| region.start) else {
                continue;
            };
            if !known.addresses.insert(pointer) {
                continue;
            }
            let met = known.regions.entry(region).or_default();
            let backward = if met.blocks == 0 && met.others > ENOUGH {
                0
            } else {
                FAR
            };
            let Some(addresses) = self.heap.block(pointer, backward, self.pages) else {
                met.others += 1;
                continue;
            };
            met.blocks += 1;
            if addresses.start == pointer || known.addresses.insert(addresses.start) {
                next.push(Block { addresses, place });
            }
        }
    }

    /// Whether an allocator was met that lays its blocks out in another way.
    fn is_foreign(&self, known: &Known) -> bool {
        known.regions.iter().any(|(&region, met)| {
            met.blocks == 0 && met.others != 0 && self.heap.is_an_allocator_s(region)
        })
    }
}

fn note(outcome: &mut Outcome, found: &Found, place: usize, blocks: u32) {
    for &target in &found.targets {
        let hit = &mut outcome.hits[target];
        if hit.is_none() {
            *hit = Some(Hit { place, blocks });
        }
    }
}

#[cfg(test)]
mod tests;
