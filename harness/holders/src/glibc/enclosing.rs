//! Explains targets that cannot be reached from any place: finds the program's own blocks that
//! still contain such a target, and the blocks that point to those blocks. Often, these blocks form
//! a cycle.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use super::memory::{Memory, Pages};
use super::targets::Targets;
use crate::Enclosing;

/// The largest number of blocks that are listed for one group.
const LONGEST: usize = 8;

/// Returns, for each of the `groups` groups, the chain of blocks that leads to one of its targets.
/// `blocks` must be sorted by address.
pub(super) fn of<M: Memory>(
    targets: &Targets,
    groups: usize,
    blocks: &[Range<u64>],
    pages: &mut Pages<M>,
) -> Vec<Option<Enclosing>> {
    let mut containing: Vec<Option<usize>> = vec![None; groups];
    // For each block, the blocks that point to it.
    let mut led_to_by: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (at, block) in blocks.iter().enumerate() {
        let seen = pages.words(block.start, block.end, |_, word| {
            let mut found = targets.find(word).peekable();
            if found.peek().is_some() {
                found.for_each(|target| {
                    containing[targets.group(target)].get_or_insert(at);
                });
            } else if let Some(inside) = block_at(blocks, word).filter(|inside| *inside != at) {
                let outer = led_to_by.entry(inside).or_default();
                if outer.last() != Some(&at) {
                    outer.push(at);
                }
            }
            true
        });
        if !seen {
            return vec![None; groups];
        }
    }
    let enclosing = |first: usize| outwards(first, &led_to_by, blocks);
    let containing = containing.into_iter();
    containing.map(|first| first.map(enclosing)).collect()
}

fn block_at(blocks: &[Range<u64>], address: u64) -> Option<usize> {
    let at = blocks.partition_point(|block| block.start <= address);
    let at = at.checked_sub(1)?;
    blocks[at].contains(&address).then_some(at)
}

/// Returns the shortest path from `first` to a block to which no other block points or, if there is
/// no such block, back to `first`.
fn outwards(
    first: usize,
    led_to_by: &FxHashMap<usize, Vec<usize>>,
    blocks: &[Range<u64>],
) -> Enclosing {
    // For each block on the path, the block that it points to.
    let mut inner: FxHashMap<usize, usize> = FxHashMap::default();
    let mut visited: FxHashSet<usize> = FxHashSet::from_iter([first]);
    let mut queue = VecDeque::from([first]);
    let (mut outermost, mut last) = (None, None);
    while let Some(block) = queue.pop_front() {
        let outer = led_to_by.get(&block).map_or(&[][..], Vec::as_slice);
        if outer.is_empty() {
            outermost.get_or_insert(block);
        }
        if outer.contains(&first) {
            last.get_or_insert(block);
        }
        for outer in outer {
            if visited.insert(*outer) {
                inner.insert(*outer, block);
                queue.push_back(*outer);
            }
        }
    }
    // If some of these blocks cannot be reached from `first`, they are part of another cycle, which
    // points to this one.
    let mut leads_to: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for block in &visited {
        for outer in led_to_by.get(block).into_iter().flatten() {
            leads_to.entry(*outer).or_default().push(*block);
        }
    }
    let mut reached: FxHashSet<usize> = FxHashSet::from_iter([first]);
    let mut left = vec![first];
    while let Some(block) = left.pop() {
        let next = leads_to.get(&block).into_iter().flatten();
        left.extend(next.filter(|next| reached.insert(**next)));
    }
    // If both are `None`, `first` is reached only from a cycle further out.
    let end = outermost.or(last).unwrap_or(first);
    let path = std::iter::successors(Some(end), |block| inner.get(block).copied());
    let mut path: Vec<u64> = path.map(|block| blocks[block].start).collect();
    path.reverse();
    path.truncate(LONGEST);
    Enclosing {
        blocks: path,
        is_cycle: outermost.is_none() && last.is_some() && visited == reached,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::memory::Pages;
    use super::super::targets::Targets;
    use super::super::tests::{Synthetic, unlimited};
    use crate::{Enclosing, Hidden, Target};

    const TARGET: u64 = 0x7f00_0000_0000;
    const HEAP: u64 = 0x6000_0000_0000;

    fn block(number: u64) -> Range<u64> {
        let start = HEAP + number * 0x100;
        start..start + 0x20
    }

    /// Returns the blocks that enclose the target, given the word that each block contains.
    fn enclosing(contents: &[u64]) -> Option<Enclosing> {
        let mut memory = Synthetic::default();
        let mut blocks = Vec::new();
        for (word, number) in contents.iter().zip(0..) {
            memory.put(block(number).start + 8, *word);
            blocks.push(block(number));
        }
        let target = Target {
            first: Hidden::of(TARGET),
            values: 16,
            group: 0,
        };
        let mut pages = Pages::new(memory, unlimited());
        super::of(&Targets::new(vec![target]), 1, &blocks, &mut pages).remove(0)
    }

    fn starts(blocks: &[u64]) -> Vec<u64> {
        blocks.iter().map(|number| block(*number).start).collect()
    }

    #[test]
    fn an_address_outside_any_block_is_enclosed_by_none() {
        assert_eq!(enclosing(&[7, block(0).start]), None);
    }

    #[test]
    fn a_block_that_nothing_leads_to_ends_the_chain() {
        let found = enclosing(&[block(1).start + 8, TARGET + 8, block(0).start]);
        let expected = Enclosing {
            blocks: starts(&[1, 0, 2]),
            is_cycle: false,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn blocks_that_lead_to_each_other_are_a_cycle() {
        let mut memory = Synthetic::default();
        // The first block contains the target and points to the second, which points to the third.
        memory.put(block(0).start, TARGET);
        memory.put(block(0).start + 8, block(1).start);
        memory.put(block(1).start, block(2).start);
        memory.put(block(2).start, block(0).start);
        let target = Target {
            first: Hidden::of(TARGET),
            values: 16,
            group: 0,
        };
        let mut pages = Pages::new(memory, unlimited());
        let blocks = [0, 1, 2].map(block);
        let found = super::of(&Targets::new(vec![target]), 1, &blocks, &mut pages);
        let expected = Enclosing {
            blocks: starts(&[0, 2, 1]),
            is_cycle: true,
        };
        assert_eq!(found, [Some(expected)]);
    }

    #[test]
    fn a_block_that_leads_to_itself_is_not_a_cycle() {
        let found = enclosing(&[TARGET, block(0).start]);
        let expected = Enclosing {
            blocks: starts(&[0, 1]),
            is_cycle: false,
        };
        assert_eq!(found, Some(expected));
    }
}
