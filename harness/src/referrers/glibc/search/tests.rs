use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::super::memory::synthetic::Synthetic;
use super::*;
use crate::referrers::Target;

/// Where the statics of these programs lie.
const STATICS: u64 = 0x5555_0000_0000;
/// Where their heap begins.
const HEAP: u64 = 0x6000_0000_0000;
/// What is looked for: memory of 256 bytes each, this far apart.
const DEVICE: u64 = 0x7f00_0000_0000;
const APART: u64 = 4096;

/// A program: what its statics and its blocks hold.
#[derive(Clone, Debug, Default)]
struct Program {
    statics: Vec<Vec<Word>>,
    /// Whether a block is in use, and what it holds.
    blocks: Vec<(bool, Vec<Word>)>,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Number(u64),
    /// The address of a block, and so many words behind its beginning.
    Block(usize, usize),
    /// A target, and so many bytes behind its beginning.
    Target(usize, u64),
}

fn heap(region: Range<u64>) -> Heap {
    Heap::new(Vec::from([region]))
}

/// How many bytes a block takes with its header.
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

    /// It in memory, as glibc lays it out; and where its heap ends.
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
        }
        // What has not been given out yet.
        let top = self.address(self.blocks.len());
        let end = (top + 64).next_multiple_of(4096);
        memory.put(top - 8, (end - (top - 16)) | u64::from(before));
        (memory, end)
    }

    fn search(&self, targets: usize, driver: &Driver) -> Outcome {
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
                values: first..first + 256,
                group,
            }
        });
        let search = Search {
            pages: &mut Pages::new(memory),
            heap: &heap(HEAP..end),
            driver,
            targets: &Targets::new(all.collect()),
            budget: Budget::new(Duration::from_secs(60)),
        };
        search.run(&regions)
    }

    /// For each target through how many blocks it is reached, by the simplest means.
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
        // None that a header could be: by those, blocks are recognised.
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

/// How far each was found.
fn depths(outcome: &Outcome) -> Vec<Option<u32>> {
    let hits = outcome.hits.iter();
    hits.map(|hit| hit.map(|hit| hit.blocks)).collect()
}

proptest! {
    #[test]
    fn what_is_found_is_what_the_simplest_means_find(program in programs(3)) {
        // One finding that nothing leads to, so that the search goes on to the end.
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
            blocks: 6
        })]
    );
    assert!(near.hits[0].is_some_and(|hit| hit.is_near()));
    let far = chain(8).search(1, &Driver::default());
    assert!(far.hits[0].is_some_and(|hit| !hit.is_near()));
}

#[test]
fn what_is_nowhere_is_known_to_be_nowhere() {
    let mut program = chain(3);
    program.blocks[2].1.clear();
    let outcome = program.search(1, &Driver::default());
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], true));
}

#[test]
fn a_block_in_use_no_more_holds_nothing() {
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
        contexts: [CONTEXT].into_iter().collect(),
        ..Driver::default()
    };
    let mut program = chain(3);
    let known = Driver {
        handles: [program.address(0)].into_iter().collect(),
        ..Driver::default()
    };
    assert_eq!(program.search(1, &known).hits, [None]);
    program.blocks[1].1.push(Word::Number(LIBRARY + 8));
    assert_eq!(program.search(1, &of_a_library).hits, [None]);
    assert!(program.search(1, &of_a_context).hits[0].is_some());
    program.blocks[1].1.push(Word::Number(CONTEXT));
    assert_eq!(program.search(1, &of_a_context).hits, [None]);
    // What stands beside a context is the program's.
    program.blocks[2].1.push(Word::Number(CONTEXT));
    program.blocks[1].1.pop();
    assert!(program.search(1, &of_a_context).hits[0].is_some());
}

#[test]
fn a_search_whose_time_is_up_ends_and_claims_nothing() {
    let program = chain(3);
    let (memory, end) = program.memory();
    let target = Target {
        values: DEVICE..DEVICE + 256,
        group: 0,
    };
    let search = Search {
        pages: &mut Pages::new(memory),
        heap: &heap(HEAP..end),
        driver: &Driver::default(),
        targets: &Targets::new(vec![target]),
        budget: Budget::new(Duration::ZERO),
    };
    let region = Region {
        addresses: STATICS..STATICS + 8192,
        place: 0,
    };
    let outcome = search.run(&[region]);
    assert_eq!((&*outcome.hits, outcome.complete), (&[None][..], false));
}
