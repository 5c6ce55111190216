//! Searches for leaked resources, starting from the program's own statics, thread-locals and
//! stacks.
//!
//! The search is breadth-first, so that the nearest place is found. Every word that may be the
//! address of a block is treated as one. The search starts from the places, not from all memory,
//! because a copy in a freed block is not reachable from any place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::{DEEPEST, Hidden};
use super::heap::{self, Block, Heap, Other};
use super::memory::{Memory, Pages, Seen};
use super::targets::{END, LOWEST, Targets};
use super::threads;

/// How many addresses are followed.
const MAX_BLOCKS: usize = 1 << 20;
/// How far before an address inside a block its header is searched for. A pointer to a hash table,
/// for example, is an address after its entries.
const FAR: u64 = 64 << 10;
/// How many bytes are examined after an address without a block.
const LOOKED_AT: u64 = 64;
/// After this many addresses without a block in a region, no block is expected in the region.
const ENOUGH: u32 = 32;

/// A memory range of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) addresses: Range<u64>,
    /// The number of its place.
    pub(super) place: usize,
}

/// How the driver's own blocks are recognised. Every address can be reached from these blocks,
/// because the driver's tables contain all addresses.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// The memory of the driver's libraries. A block that points into it is the driver's, unless it
    /// points to one of `functions`.
    pub(super) libraries: Heap,
    /// The code of the program. A block that points into it as well may be the stack of a
    /// coroutine, which is not searched.
    pub(super) program: Heap,
    /// The functions that the program has looked up.
    pub(super) functions: FxHashSet<u64>,
    /// The contexts. The blocks of the objects in a context point to it.
    pub(super) contexts: FxHashSet<Hidden>,
    /// All known objects. Their handles are addresses of the driver's blocks.
    pub(super) handles: BTreeSet<Hidden>,
}

impl Driver {
    /// Whether a known object is in this block. An object need not begin where its block begins: a
    /// queue, for example, may be part of its device.
    fn has_an_object_in(&self, block: &Range<u64>) -> bool {
        // Hidden addresses are in the reverse order.
        let handles = Hidden::of(block.end - 1)..=Hidden::of(block.start);
        self.handles.range(handles).next().is_some()
    }
}

/// How a target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The place.
    pub(super) place: usize,
    /// The number of blocks in between.
    pub(super) blocks: u32,
    /// The beginning of the block that contains it; `None` if the place itself does.
    pub(super) inside: Option<u64>,
}

impl Hit {
    /// Whether the place is near enough to be named.
    pub(super) fn is_near(&self) -> bool {
        self.blocks <= DEEPEST
    }
}

/// The result of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The nearest place for each target.
    pub(super) hits: Vec<Option<Hit>>,
    /// Whether everything reachable was searched.
    pub(super) complete: bool,
    /// For each block to which another block led, that other block. Both are given by their first
    /// addresses.
    led_to_by: FxHashMap<u64, u64>,
}

impl Outcome {
    /// Returns the first addresses of the blocks through which a target was reached, the one
    /// nearest to the place first.
    pub(super) fn path(&self, hit: Hit) -> Vec<u64> {
        let before = |block: &u64| self.led_to_by.get(block).copied();
        let mut path: Vec<_> = std::iter::successors(hit.inside, before).collect();
        path.reverse();
        path
    }
}

/// A search in progress.
#[derive(Debug)]
pub(super) struct Search<'a, M> {
    pub(super) pages: &'a mut Pages<M>,
    pub(super) heap: &'a Heap,
    pub(super) driver: &'a Driver,
    pub(super) targets: &'a Targets,
}

/// The blocks followed so far.
#[derive(Debug, Default)]
struct Known {
    addresses: FxHashSet<u64>,
    /// The end of each block, by its beginning.
    blocks: BTreeMap<u64, u64>,
    /// The results for each region, by its first address.
    regions: FxHashMap<u64, Met>,
}

impl Known {
    /// Whether a block that is already followed contains an address. Something in it may look like
    /// the header of another block.
    fn has(&self, address: u64) -> bool {
        let block = self.blocks.range(..=address).next_back();
        block.is_some_and(|(_, &end)| address < end)
    }
}

/// The addresses found in a region, by whether they are in blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    blocks: u32,
    others: u32,
    /// Whether there is data at an address that is not in a block.
    has_data: bool,
}

/// A block to be searched.
#[derive(Debug)]
struct PendingBlock {
    addresses: Range<u64>,
    place: usize,
}

/// The results for a range of memory.
#[derive(Debug, Default)]
struct Found {
    targets: Vec<usize>,
    pointers: Vec<u64>,
    is_the_driver_s: bool,
    points_to_code: bool,
    names_a_context: bool,
}

impl<M: Memory> Search<'_, M> {
    /// Searches for all targets, starting from `regions`, until each group has a place.
    pub(super) fn run(mut self, regions: &[Region]) -> Outcome {
        let mut outcome = Outcome {
            hits: vec![None; self.targets.len()],
            complete: true,
            led_to_by: FxHashMap::default(),
        };
        let mut known = Known::default();
        let mut level = Vec::new();
        for region in regions {
            let found = self.look(&region.addresses, &mut outcome.complete);
            note(&mut outcome, &found, region.place, 0, None);
            self.follow(found.pointers, region.place, &mut known, &mut level);
        }
        for blocks in 1.. {
            if level.is_empty() || self.is_settled(&outcome) || self.pages.is_spent() {
                break;
            }
            // Large blocks take long, and rarely lead further.
            level.sort_by_key(|block: &PendingBlock| block.addresses.end - block.addresses.start);
            let mut next = Vec::new();
            for block in level {
                let found = self.look(&block.addresses, &mut outcome.complete);
                if found.is_the_driver_s {
                    outcome.complete &= !found.points_to_code || found.targets.is_empty();
                    continue;
                }
                let start = block.addresses.start;
                note(&mut outcome, &found, block.place, blocks, Some(start));
                if !found.names_a_context {
                    let first = next.len();
                    self.follow(found.pointers, block.place, &mut known, &mut next);
                    let led_to = next[first..].iter().map(|it| it.addresses.start);
                    outcome.led_to_by.extend(led_to.map(|it| (it, start)));
                }
            }
            level = next;
        }
        outcome.complete &= level.is_empty()
            && known.addresses.len() < MAX_BLOCKS
            && !self.pages.is_spent()
            && !self.is_foreign(&known);
        outcome
    }

    /// Whether each group has a place.
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

    /// Finds the targets and possible pointers in a range of memory.
    fn look(&mut self, addresses: &Range<u64>, complete: &mut bool) -> Found {
        let mut found = Found::default();
        let mut is_cut = false;
        let (heap, driver, targets) = (self.heap, self.driver, self.targets);
        let all = self
            .pages
            .words(addresses.start, addresses.end, |at, word| {
                // Most words are numbers or text, or consist of parts of two adjacent words.
                if !(LOWEST..END).contains(&word) || at % 8 != 0 && is_plain(word) {
                    return true;
                }
                if let Some(target) = targets.find(word) {
                    found.targets.push(target);
                    return true;
                }
                found.names_a_context |= driver.contexts.contains(&Hidden::of(word));
                // Parts of two adjacent words may look like such an address.
                found.is_the_driver_s |= at % 8 == 0
                    && driver.libraries.region(word).is_some()
                    && !driver.functions.contains(&word);
                found.points_to_code |= at % 8 == 0 && driver.program.region(word).is_some();
                if heap.region(word).is_some() && !driver.handles.contains(&Hidden::of(word)) {
                    // There is no need to store more pointers than can be followed.
                    match found.pointers.len() {
                        ..MAX_BLOCKS => found.pointers.push(word),
                        _ => is_cut = true,
                    }
                }
                true
            });
        *complete &= all == Seen::All && !is_cut;
        found
    }

    /// Adds the blocks that `pointers` point into, each once.
    fn follow(
        &mut self,
        pointers: Vec<u64>,
        place: usize,
        known: &mut Known,
        next: &mut Vec<PendingBlock>,
    ) {
        for pointer in pointers {
            if known.addresses.len() >= MAX_BLOCKS || self.pages.is_spent() {
                return;
            }
            let Some(region) = self.heap.region(pointer).map(|region| region.start) else {
                continue;
            };
            if known.has(pointer) || !known.addresses.insert(pointer) {
                continue;
            }
            let met = known.regions.entry(region).or_default();
            let backward = if met.blocks == 0 && met.others > ENOUGH {
                0
            } else {
                FAR
            };
            let Some(Block { addresses, in_use }) = self.heap.block(pointer, backward, self.pages)
            else {
                // A value that would be the address of zeros is probably not an address.
                let begin = pointer - pointer % 8;
                let mut words = (begin..begin + LOOKED_AT).step_by(8);
                met.has_data |= words.any(|at| self.pages.word(at).unwrap_or(0) != 0);
                met.others += 1;
                continue;
            };
            met.blocks += 1;
            if !in_use {
                continue;
            }
            if self.driver.has_an_object_in(&addresses) {
                continue;
            }
            if addresses.start == pointer || known.addresses.insert(addresses.start) {
                known.blocks.insert(addresses.start, addresses.end);
                next.push(PendingBlock { addresses, place });
            }
        }
    }

    /// Whether an aligned word leads to memory that is not searched but may contain a target: the
    /// memory of an allocator with another layout, or the stack of a coroutine. Values on the stack
    /// of a thread that has ended do not count.
    fn is_foreign(&mut self, known: &Known) -> bool {
        // Parts of two adjacent words look like an address too often to mean anything.
        if self.pages.step != 8 {
            return false;
        }
        let met = known.regions.iter();
        let met = met.filter(|(_, met)| met.blocks == 0 && met.has_data);
        let mut regions = met.filter_map(|(&region, _)| self.heap.region(region));
        regions.any(|region| match self.heap.other(&region) {
            // If the region is glibc's, this is an address of freed memory whose header is far away
            // or gone.
            None => !heap::is_of_glibc(&region, self.pages),
            Some(Other::Variables) => false,
            Some(Other::Stack) => {
                !threads::has_descriptor(&region, self.pages)
                    && !self.look(&region, &mut true).targets.is_empty()
            }
        })
    }
}

/// Whether a word has so few nonzero bytes that unaligned small numbers often look like it.
fn is_plain(word: u64) -> bool {
    word.to_ne_bytes().iter().filter(|byte| **byte != 0).count() < 3
}

fn note(outcome: &mut Outcome, found: &Found, place: usize, blocks: u32, inside: Option<u64>) {
    for &target in &found.targets {
        let hit = &mut outcome.hits[target];
        if hit.is_none() {
            *hit = Some(Hit {
                place,
                blocks,
                inside,
            });
        }
    }
}

#[cfg(test)]
mod tests;
