use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::budget::Budget;
use super::super::memory::{MAX_BYTES_READ, Memory, PAGE};
use super::super::tests::{READS, Synthetic, reads, unlimited};
use super::*;
use crate::Target;

/// The address of the statics of the programs in these tests.
const STATICS: u64 = 0x5555_0000_0000;
/// The address at which the heap of these programs begins.
const HEAP: u64 = 0x6000_0000_0000;
/// The address of the first target. Each target is 256 bytes of memory, and the targets are `APART`
/// bytes apart.
const DEVICE: u64 = 0x7f00_0000_0000;
const APART: u64 = 4096;

/// A program: the contents of its statics and of its blocks.
#[derive(Clone, Debug, Default)]
struct Program {
    statics: Vec<Vec<Word>>,
    /// For each block, whether it is in use, and its contents.
    blocks: Vec<(bool, Vec<Word>)>,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Number(u64),
    /// A block's address plus this many words.
    Block(usize, usize),
    /// A target's address plus this many bytes.
    Target(usize, u64),
}

fn heap(region: Range<u64>) -> Heap {
    Heap::new(Vec::from([region]))
}

/// Returns the number of bytes that a block uses, including its header.
fn size(words: usize) -> u64 {
    (words as u64 * 8 + 8).next_multiple_of(16).max(32)
}

impl Program {
    fn address(&self, block: usize) -> u64 {
        let before = &self.blocks[..block];
        HEAP + 16
            + before
                .iter()
                .map(|(_, words)| size(words.len()))
                .sum::<u64>()
    }

    fn value(&self, word: Word) -> u64 {
        match word {
            Word::Number(number) => number,
            Word::Block(block, word) => {
                let words = self.blocks[block].1.len();
                self.address(block) + 8 * (word % words.max(1)) as u64
            }
            Word::Target(target, offset) => DEVICE + target as u64 * APART + offset % 256,
        }
    }

    /// Returns the program's memory, as laid out by glibc, and the end of its heap.
    fn memory(&self) -> (Synthetic, u64) {
        let mut memory = Synthetic::default();
        for (at, words) in self.statics.iter().enumerate() {
            for (index, word) in words.iter().enumerate() {
                memory.put(
                    STATICS + at as u64 * 4096 + 8 * index as u64,
                    self.value(*word),
                );
            }
        }
        let mut before = true;
        for (at, (in_use, words)) in self.blocks.iter().enumerate() {
            let address = self.address(at);
            memory.put(address - 8, size(words.len()) | u64::from(before));
            before = *in_use;
            for (index, word) in words.iter().enumerate() {
                memory.put(address + 8 * index as u64, self.value(*word));
            }
            if !in_use {
                memory.put(address - 16 + size(words.len()), size(words.len()));
            }
        }
        // This is the part of the heap that has not been handed out yet.
        let top = self.address(self.blocks.len());
        let end = (top + 64).next_multiple_of(4096);
        memory.put(top - 8, (end - (top - 16)) | u64::from(before));
        (memory, end)
    }

    fn search(&self, targets: usize, driver: &Driver) -> Outcome {
        self.search_for(targets, driver, unlimited())
    }

    fn search_for(&self, targets: usize, driver: &Driver, time: Budget) -> Outcome {
        READS.set(0);
        let (memory, end) = self.memory();
        let regions: Vec<_> = (0..self.statics.len())
            .map(|place| {
                let start = STATICS + place as u64 * 4096;
                Region {
                    addresses: start..start + 8 * self.statics[place].len() as u64,
                    place,
                }
            })
            .collect();
        let all = (0..targets).map(|group| {
            let first = DEVICE + group as u64 * APART;
            Target {
                first: Hidden::of(first),
                values: 256,
                group,
            }
        });
        let search = Search {
            pages: &mut Pages::new(memory, time),
            heap: &heap(HEAP..end),
            driver,
            targets: &Targets::new(all.collect()),
        };
        search.run(&regions)
    }

    /// Computes, with a simple reference algorithm, through how many blocks each target is reached.
    fn nearest(&self, targets: usize) -> Vec<Option<u32>> {
        let mut found = vec![None; targets];
        let mut met = vec![false; self.blocks.len()];
        let statics = self.statics.iter().map(|words| (words, 0));
        let mut queue: VecDeque<(&Vec<Word>, u32)> = statics.collect();
        while let Some((words, depth)) = queue.pop_front() {
            for word in words {
                match *word {
                    Word::Target(target, _) if found[target].is_none() => {
                        found[target] = Some(depth);
                    }
                    Word::Block(block, _) if !met[block] => {
                        met[block] = true;
                        if self.blocks[block].0 {
                            queue.push_back((&self.blocks[block].1, depth + 1));
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

fn word(blocks: usize, targets: usize) -> impl Strategy<Value = Word> {
    prop_oneof![
        // No number may look like a header, because blocks are recognised by their headers.
        3 => (0_u64..32).prop_map(Word::Number),
        1 => (0..blocks, prop_oneof![3 => Just(0), 1 => 0_usize..1000])
            .prop_map(|(block, word)| Word::Block(block, word)),
        1 => (0..targets, 0_u64..256).prop_map(|(target, at)| Word::Target(target, at)),
    ]
}

fn programs(targets: usize) -> impl Strategy<Value = Program> {
    (1_usize..30).prop_flat_map(move |blocks| {
        let some = |most| prop::collection::vec(word(blocks, targets), 1..most);
        let statics = prop::collection::vec(some(4), 1..4);
        let blocks = prop::collection::vec((prop::bool::weighted(0.8), some(40)), blocks);
        (statics, blocks).prop_map(|(statics, blocks)| Program { statics, blocks })
    })
}

/// Returns the distance at which each target was found.
fn depths(outcome: &Outcome) -> Vec<Option<u32>> {
    let hits = outcome.hits.iter();
    hits.map(|hit| hit.map(|hit| hit.blocks)).collect()
}

proptest! {
    #[test]
    fn the_search_agrees_with_a_naive_search(program in programs(3)) {
        // Nothing refers to the last target, so the search continues to the end.
        let outcome = program.search(4, &Driver::default());
        let mut expected = program.nearest(3);
        expected.push(None);
        prop_assert_eq!(depths(&outcome), expected);
    }
}

fn chain(length: usize) -> Program {
    let mut blocks: Vec<_> = (1..length)
        .map(|next| (true, vec![Word::Number(5), Word::Block(next, 0)]))
        .collect();
    blocks.push((true, vec![Word::Target(0, 3)]));
    Program {
        statics: vec![vec![Word::Number(1)], vec![Word::Block(0, 0)]],
        blocks,
    }
}

#[test]
fn a_chain_leads_back_to_its_static_and_a_long_one_is_too_far_to_be_named() {
    let near = chain(6).search(1, &Driver::default());
    assert_eq!(
        near.hits,
        [Some(Hit {
            place: 1,
            blocks: 6,
            inside: Some(chain(6).address(5)),
        })]
    );
    let path = near.path(near.hits[0].expect("a hit"));
    assert_eq!(
        path,
        [0, 1, 2, 3, 4, 5].map(|block| chain(6).address(block))
    );
    assert!(near.hits[0].is_some_and(|hit| hit.is_near()));
    let far = chain(8).search(1, &Driver::default());
    assert!(far.hits[0].is_some_and(|hit| !hit.is_near()));
}

#[test]
fn a_number_in_a_block_that_looks_like_a_header_leads_to_no_other_block() {
    let mut program = chain(6);
    // The second word looks like the header of a block that ends where the next block does, and the
    // first word points past that header.
    let beside = size(2) + 48;
    program.blocks[0].1 = vec![Word::Number(0); 6];
    program.blocks[0].1[0] = Word::Block(0, 2);
    program.blocks[0].1[1] = Word::Number(beside | 1);
    program.blocks[1].1 = vec![Word::Target(0, 0), Word::Number(0)];
    program.blocks[5].1 = vec![Word::Number(0)];
    assert_eq!(program.search(1, &Driver::default()).hits, [None]);
}

#[test]
fn a_search_for_an_address_that_nothing_holds_is_complete() {
    let mut program = chain(3);
    program.blocks[2].1.clear();
    let outcome = program.search(1, &Driver::default());
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], true));
}

#[test]
fn a_freed_block_holds_nothing() {
    let mut program = chain(3);
    program.blocks[1].0 = false;
    assert_eq!(program.search(1, &Driver::default()).hits, [None]);
}

#[test]
fn the_driver_s_own_blocks_lead_nowhere() {
    const LIBRARY: u64 = 0x7fff_0000_0000;
    const CONTEXT: u64 = 0x7fff_f000_0000;
    let of_a_library = Driver {
        libraries: heap(LIBRARY..LIBRARY + 4096),
        ..Driver::default()
    };
    let of_a_context = Driver {
        objects: DriverObjects {
            contexts: [Hidden::of(CONTEXT)].into_iter().collect(),
            ..DriverObjects::default()
        },
        ..Driver::default()
    };
    let mut program = chain(3);
    let known = Driver {
        objects: DriverObjects {
            all: [Hidden::of(program.address(0))].into_iter().collect(),
            ..DriverObjects::default()
        },
        ..Driver::default()
    };
    assert_eq!(program.search(1, &known).hits, [None]);
    // A queue may be part of its device, and the program knows only the queue's address.
    let inside = Driver {
        objects: DriverObjects {
            all: [Hidden::of(program.address(0) + 8)].into_iter().collect(),
            ..DriverObjects::default()
        },
        ..Driver::default()
    };
    assert_eq!(program.search(1, &inside).hits, [None]);
    program.blocks[1].1.push(Word::Number(LIBRARY + 8));
    assert_eq!(program.search(1, &of_a_library).hits, [None]);
    // The program keeps the addresses of functions that it has looked up.
    let with_functions = Driver {
        objects: DriverObjects {
            functions: [LIBRARY + 8].into_iter().collect(),
            ..DriverObjects::default()
        },
        ..of_a_library
    };
    assert!(program.search(1, &with_functions).hits[0].is_some());
    assert!(program.search(1, &of_a_context).hits[0].is_some());
    program.blocks[1].1.push(Word::Number(CONTEXT));
    assert_eq!(program.search(1, &of_a_context).hits, [None]);
    // Words next to the address of a context belong to the program.
    program.blocks[2].1.push(Word::Number(CONTEXT));
    program.blocks[1].1.pop();
    assert!(program.search(1, &of_a_context).hits[0].is_some());
}

/// A program with two gigabytes of heap: a tree of blocks that is reached from the program's only
/// static.
struct Large;

impl Large {
    const BLOCK: u64 = 64 << 10;
    const BLOCKS: u64 = (2 << 30) / Self::BLOCK;
    const END: u64 = HEAP + Self::BLOCKS * Self::BLOCK;

    fn block(number: u64) -> u64 {
        match number {
            0..Self::BLOCKS => HEAP + number * Self::BLOCK + 16,
            _ => 0,
        }
    }

    /// Searches the first `blocks` blocks of the heap for a target to which nothing refers.
    fn search(budget: Budget, blocks: u64) -> Outcome {
        READS.set(0);
        let target = Target {
            first: Hidden::of(DEVICE),
            values: 256,
            group: 0,
        };
        let search = Search {
            pages: &mut Pages::new(Self, budget),
            heap: &heap(HEAP..HEAP + blocks * Self::BLOCK),
            driver: &Driver::default(),
            targets: &Targets::new(vec![target]),
        };
        let region = Region {
            addresses: STATICS..STATICS + 8,
            place: 0,
        };
        search.run(&[region])
    }
}

impl Memory for Large {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut read = 0;
        for (address, page) in (address..)
            .step_by(PAGE as usize)
            .zip(into.chunks_mut(PAGE as usize))
        {
            READS.set(READS.get() + 1);
            let mut put =
                |at: usize, word: u64| page[at..at + 8].copy_from_slice(&word.to_ne_bytes());
            if address == STATICS {
                put(0, Self::block(0));
            } else if !(HEAP..Self::END).contains(&address) {
                break;
            } else if (address - HEAP).is_multiple_of(Self::BLOCK) {
                let number = (address - HEAP) / Self::BLOCK;
                put(8, Self::BLOCK | 1);
                put(16, Self::block(2 * number + 1));
                put(24, Self::block(2 * number + 2));
            }
            read += page.len();
        }
        read
    }
}

#[test]
fn a_search_of_two_gigabytes_ends_in_time_and_claims_nothing() {
    let outcome = Large::search(reads(2000), Large::BLOCKS);
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], false));
    assert_eq!(READS.get(), 2000);
    // Everything that can be searched in that time is searched.
    let outcome = Large::search(reads(2000), 100);
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], true));
    assert!((1500..2000).contains(&READS.get()), "{}", READS.get());
}

#[test]
fn a_search_without_a_time_limit_reads_no_more_than_allowed() {
    let outcome = Large::search(unlimited(), Large::BLOCKS);
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], false));
    assert_eq!(READS.get() * PAGE, MAX_BYTES_READ);
}

/// Wherever the limit of reads ends the search, every place that was found is correct, and the
/// result is marked as complete only if it is complete.
#[test]
fn an_interrupted_search_reports_nothing_wrong() {
    let mut program = chain(5);
    program.statics.push(vec![Word::Number(7)]);
    for blocks in &mut program.blocks {
        // With these words, the program spans several pages.
        blocks.1.resize(1000, Word::Number(3));
    }
    let whole = program.search_for(1, &Driver::default(), unlimited());
    assert!(whole.hits[0].is_some());
    let needed = READS.get();
    for most in 0..=needed {
        let cut = program.search_for(1, &Driver::default(), reads(most));
        match cut.hits[0] {
            Some(_) => assert_eq!(cut.hits, whole.hits),
            None => assert!(!cut.complete, "after {most} of {needed} reads"),
        }
    }
}
