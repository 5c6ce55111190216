//! Searches for references to leaked resources, starting from the program's own statics,
//! thread-locals and stacks.
//!
//! The search is breadth-first, so it finds the nearest place. It treats every word that may be the
//! address of a block as such an address. It starts from places rather than scanning all memory,
//! because a copy of an address in a freed block is not reachable from any place.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::{DEEPEST, DriverObjects, Hidden};
use super::descriptor::has_descriptor;
use super::heap::{self, Block, Heap, Other};
use super::memory::{Memory, Pages};
use super::targets::{Targets, may_be_address};

/// The largest number of addresses that are followed.
const MAX_BLOCKS: usize = 1 << 20;
/// How far the search for a block's header goes back from an address inside the block. For example,
/// a pointer to a hash table points past the table's entries.
const FAR: u64 = 64 << 10;
/// How many bytes are examined after an address that is not in a block.
const EXAMINED: u64 = 64;
/// How many addresses without a block are examined in a region before it is assumed to have no
/// blocks.
const ENOUGH: u32 = 32;

/// A memory range that belongs to a place, or a block that was reached from a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) addresses: Range<u64>,
    pub(super) place: usize,
}

/// How the driver's own blocks are recognised. These blocks are not followed, because the driver's
/// tables contain all addresses, so every address could be reached from them.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// The memory of the driver's libraries. A block that points into it belongs to the driver,
    /// unless it points to a function that the program has looked up.
    pub(super) libraries: Heap,
    /// The program's code. A block that points into this code as well as into a driver library may
    /// be the stack of a coroutine, which is not searched.
    pub(super) program: Heap,
    pub(super) objects: DriverObjects,
}

impl Driver {
    /// Whether this block contains a known object. An object need not begin where its block begins:
    /// a queue, for example, may be part of its device.
    fn has_an_object_in(&self, block: &Range<u64>) -> bool {
        // Hidden addresses sort in reverse order.
        let handles = Hidden::of(block.end - 1)..=Hidden::of(block.start);
        self.objects.all.range(handles).next().is_some()
    }
}

/// How a target was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The index of the place.
    pub(super) place: usize,
    /// The number of blocks between the place and the target.
    pub(super) blocks: u32,
    /// The beginning of the block that contains the target; `None` if the place itself contains it.
    pub(super) inside: Option<u64>,
}

impl Hit {
    /// Whether the place is near enough to be reported.
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
    /// For each block that was reached from another block, that other block. Both are given by
    /// their first addresses.
    led_to_by: FxHashMap<u64, u64>,
}

impl Outcome {
    /// Returns the first addresses of the blocks through which a target was reached, beginning with
    /// the block nearest to the place.
    pub(super) fn path(&self, hit: Hit) -> Vec<u64> {
        let before = |block: &u64| self.led_to_by.get(block).copied();
        let mut path: Vec<_> = std::iter::successors(hit.inside, before).collect();
        path.reverse();
        path
    }
}

/// A search in progress.
pub(super) struct Search<'a, M> {
    pub(super) pages: &'a mut Pages<M>,
    pub(super) heap: &'a Heap,
    pub(super) driver: &'a Driver,
    pub(super) targets: &'a Targets,
}

/// The blocks followed so far.
#[derive(Debug, Default)]
struct FollowedBlocks {
    addresses: FxHashSet<u64>,
    /// The end of each block, by its beginning.
    blocks: BTreeMap<u64, u64>,
    /// The results for each region, by its first address.
    regions: FxHashMap<u64, AddressCounts>,
}

impl FollowedBlocks {
    /// Whether an address lies in a block that is already followed. Words inside such a block may
    /// look like the header of another block.
    fn has(&self, address: u64) -> bool {
        let block = self.blocks.range(..=address).next_back();
        block.is_some_and(|(_, &end)| address < end)
    }
}

/// How many of the addresses found in a region are in blocks, and how many are not.
#[derive(Clone, Copy, Debug, Default)]
struct AddressCounts {
    blocks: u32,
    others: u32,
    /// Whether there is data at an address that is not in a block.
    has_data: bool,
}

/// The results for a range of memory.
#[derive(Debug, Default)]
struct Found {
    targets: Vec<usize>,
    pointers: Vec<u64>,
    is_drivers: bool,
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
        let mut followed = FollowedBlocks::default();
        let mut level = Vec::new();
        for region in regions {
            let found = self.look(&region.addresses, &mut outcome.complete);
            note(&mut outcome, &found, region.place, 0, None);
            self.follow(found.pointers, region.place, &mut followed, &mut level);
        }
        for blocks in 1.. {
            if level.is_empty() || self.is_settled(&outcome) || self.pages.is_spent() {
                break;
            }
            // Large blocks take long to search and rarely lead to a target, so they come last.
            level.sort_by_key(|block: &Region| block.addresses.end - block.addresses.start);
            let mut next = Vec::new();
            for block in level {
                let found = self.look(&block.addresses, &mut outcome.complete);
                if found.is_drivers {
                    outcome.complete &= !found.points_to_code || found.targets.is_empty();
                    continue;
                }
                let start = block.addresses.start;
                note(&mut outcome, &found, block.place, blocks, Some(start));
                if !found.names_a_context {
                    let first = next.len();
                    self.follow(found.pointers, block.place, &mut followed, &mut next);
                    let led_to = next[first..].iter().map(|it| it.addresses.start);
                    outcome.led_to_by.extend(led_to.map(|it| (it, start)));
                }
            }
            level = next;
        }
        outcome.complete &= level.is_empty()
            && followed.addresses.len() < MAX_BLOCKS
            && !self.pages.is_spent()
            && !self.is_foreign(&followed);
        outcome
    }

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
                // Most words are numbers or text.
                if !may_be_address(word) {
                    return true;
                }
                let known = found.targets.len();
                found.targets.extend(targets.find(word));
                if found.targets.len() != known {
                    return true;
                }
                found.names_a_context |= driver.objects.contexts.contains(&Hidden::of(word));
                // Only aligned words count here, because parts of two adjacent words may look like
                // an address.
                found.is_drivers |= at % 8 == 0
                    && driver.libraries.region(word).is_some()
                    && !driver.objects.functions.contains(&word);
                found.points_to_code |= at % 8 == 0 && driver.program.region(word).is_some();
                if heap.region(word).is_some() && !driver.objects.all.contains(&Hidden::of(word)) {
                    // There is no need to store more pointers than can be followed.
                    match found.pointers.len() {
                        ..MAX_BLOCKS => found.pointers.push(word),
                        _ => is_cut = true,
                    }
                }
                true
            });
        *complete &= all && !is_cut;
        found
    }

    /// Adds the blocks that `pointers` point into. Each block is added only once.
    fn follow(
        &mut self,
        pointers: Vec<u64>,
        place: usize,
        followed: &mut FollowedBlocks,
        next: &mut Vec<Region>,
    ) {
        for pointer in pointers {
            if followed.addresses.len() >= MAX_BLOCKS || self.pages.is_spent() {
                return;
            }
            let Some(region) = self.heap.region(pointer).map(|region| region.start) else {
                continue;
            };
            if followed.has(pointer) || !followed.addresses.insert(pointer) {
                continue;
            }
            let counts = followed.regions.entry(region).or_default();
            let backward = if counts.blocks == 0 && counts.others > ENOUGH {
                0
            } else {
                FAR
            };
            let Some(Block { addresses, in_use }) = self.heap.block(pointer, backward, self.pages)
            else {
                // A value that points to zeros is probably not an address.
                let begin = pointer - pointer % 8;
                let mut words = (begin..begin + EXAMINED).step_by(8);
                counts.has_data |= words.any(|at| self.pages.word(at).unwrap_or(0) != 0);
                counts.others += 1;
                continue;
            };
            counts.blocks += 1;
            if !in_use {
                continue;
            }
            if self.driver.has_an_object_in(&addresses) {
                continue;
            }
            if addresses.start == pointer || followed.addresses.insert(addresses.start) {
                followed.blocks.insert(addresses.start, addresses.end);
                next.push(Region { addresses, place });
            }
        }
    }

    /// Whether an aligned word points to memory that is not searched but may contain a target: the
    /// memory of an allocator with another layout, or the stack of a coroutine. The stack of a
    /// thread that has ended is not counted.
    fn is_foreign(&mut self, followed: &FollowedBlocks) -> bool {
        // Parts of two adjacent words look like an address so often that the result would mean
        // nothing.
        if self.pages.is_packed {
            return false;
        }
        let regions = followed.regions.iter();
        let without_blocks = regions.filter(|(_, counts)| counts.blocks == 0 && counts.has_data);
        let mut regions = without_blocks.filter_map(|(&region, _)| self.heap.region(region));
        regions.any(|region| match self.heap.other(&region) {
            // If glibc manages the region, this address points to freed memory whose header is far
            // away or has been overwritten.
            None => !heap::is_of_glibc(&region, self.pages),
            Some(Other::Variables) => false,
            Some(Other::Stack) => {
                !has_descriptor(&region, self.pages)
                    && !self.look(&region, &mut true).targets.is_empty()
            }
        })
    }
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
