//! Compares the caching allocator with a second, naive implementation of the same rules, on random
//! programs.

use std::collections::BTreeMap;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::memory::{
    BlockInfo, BlockState, Buffer, Policy, PoolKind, Stat, Stats, device_memory, empty_cache,
    snapshot, stats,
};
use gpu_leak_kernels::{Device, Error};
use proptest::prelude::*;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// One step of a program.
#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    /// Drops the buffer at this index, modulo the number of buffers.
    Drop(usize),
    EmptyCache,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        4 => 1..4 * KIB,
        4 => 1..MIB,
        1 => MIB - 2 * KIB..MIB + 2 * KIB,
        3 => MIB..10 * MIB,
        1 => 10 * MIB - 2 * KIB..10 * MIB + 2 * KIB,
        1 => 10 * MIB..30 * MIB,
    ];
    let step = prop_oneof![
        8 => bytes.prop_map(Step::Take),
        6 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::EmptyCache),
    ];
    prop::collection::vec(step, 1..120)
}

/// A segment: its size, and its blocks by offset, each with its size and whether it is in use.
type Segment = (usize, BTreeMap<usize, (usize, bool)>);

/// A naive implementation of the rules, which examines all blocks at every step.
#[derive(Default)]
struct Model {
    /// The segments, by address.
    segments: BTreeMap<u64, Segment>,
}

impl Model {
    /// The block from which the cache must serve a request, if it can: the smallest free block that
    /// is large enough, and among equally large ones the one with the lowest address.
    fn fit(&self, size: usize) -> Option<(u64, usize)> {
        let small = size <= MIB;
        let segments = self.segments.iter();
        let segments = segments.filter(|(_, (total, _))| (*total == 2 * MIB) == small);
        let blocks = segments.flat_map(|(address, (_, blocks))| {
            let free = blocks.iter().filter(|(_, (_, used))| !used);
            free.map(move |(offset, (bytes, _))| (*bytes, *address, *offset))
        });
        let best = blocks.filter(|(bytes, ..)| *bytes >= size).min()?;
        Some((best.1, best.2))
    }

    fn segment_size(size: usize) -> usize {
        match size {
            _ if size <= MIB => 2 * MIB,
            _ if size < 10 * MIB => 20 * MIB,
            _ => size.div_ceil(2 * MIB) * 2 * MIB,
        }
    }

    /// Places a request by the rules and returns its address. `grown` is the new segment that the
    /// device provided, if the request needed one.
    fn take(&mut self, bytes: usize, grown: Option<(u64, usize)>) -> u64 {
        let size = bytes.div_ceil(512) * 512;
        let (address, offset) = self.fit(size).unwrap_or_else(|| {
            let (address, total) = grown.expect("a new segment");
            assert_eq!(total, Self::segment_size(size));
            let blocks = BTreeMap::from([(0, (total, false))]);
            self.segments.insert(address, (total, blocks));
            (address, 0)
        });
        let (_, blocks) = self.segments.get_mut(&address).expect("just found");
        let (whole, _) = blocks[&offset];
        let rest = whole - size;
        let least = if size <= MIB { 512 } else { MIB + 1 };
        if rest >= least {
            blocks.insert(offset, (size, true));
            blocks.insert(offset + size, (rest, false));
        } else {
            blocks.insert(offset, (whole, true));
        }
        address + offset as u64
    }

    fn drop(&mut self, address: u64) {
        let (start, (_, blocks)) = self
            .segments
            .range_mut(..=address)
            .next_back()
            .expect("a segment");
        let offset = usize::try_from(address - start).expect("within a segment");
        blocks.get_mut(&offset).expect("a block").1 = false;
        let mut merged: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
        for (offset, (size, used)) in std::mem::take(blocks) {
            match merged.last_entry() {
                Some(mut last) if !used && !last.get().1 => last.get_mut().0 += size,
                _ => drop(merged.insert(offset, (size, used))),
            }
        }
        *blocks = merged;
    }

    fn empty_cache(&mut self) {
        self.segments
            .retain(|_, (_, blocks)| blocks.values().any(|(_, used)| *used));
    }

    /// The expected snapshot: the address and size of each block, and whether it is in use.
    fn blocks(&self) -> Vec<(u64, usize, bool)> {
        let segments = self.segments.iter();
        segments
            .flat_map(|(address, (_, blocks))| {
                let blocks = blocks.iter();
                blocks.map(move |(offset, (size, used))| (address + *offset as u64, *size, *used))
            })
            .collect()
    }

    /// The number and the bytes of the free blocks that share a segment with other blocks.
    fn inactive_split(&self) -> (u64, u64) {
        let split = self
            .segments
            .values()
            .filter(|(_, blocks)| blocks.len() > 1);
        let free = split.flat_map(|(_, blocks)| blocks.values().filter(|(_, used)| !used));
        free.fold((0, 0), |(count, sum), (size, _)| {
            (count + 1, sum + *size as u64)
        })
    }
}

fn check_figures(model: &Model, kept: &[Buffer], stats: &Stats) -> Result<(), TestCaseError> {
    let blocks = model.blocks();
    let used: u64 = blocks.iter().filter(|b| b.2).map(|b| b.1 as u64).sum();
    let reserved: u64 = blocks.iter().map(|b| b.1 as u64).sum();
    let requested: u64 = kept.iter().map(|buffer| buffer.bytes() as u64).sum();
    prop_assert_eq!(stats.allocation.all.current, kept.len() as u64);
    prop_assert_eq!(stats.allocated_bytes.all.current, used);
    prop_assert_eq!(stats.active_bytes.all.current, used);
    prop_assert_eq!(stats.requested_bytes.all.current, requested);
    prop_assert_eq!(stats.segment.all.current, model.segments.len() as u64);
    prop_assert_eq!(stats.reserved_bytes.all.current, reserved);
    let inactive_split = (
        stats.inactive_split.all.current,
        stats.inactive_split_bytes.all.current,
    );
    prop_assert_eq!(inactive_split, model.inactive_split());
    for (name, family) in stats.families() {
        let of = |figure: fn(&Stat) -> u64| {
            (
                figure(&family.all),
                figure(&family.small) + figure(&family.large),
            )
        };
        for (all, parts) in [of(|s| s.current), of(|s| s.allocated), of(|s| s.freed)] {
            prop_assert_eq!(all, parts, "{}", name);
        }
        prop_assert!(family.all.peak >= family.all.current, "{}", name);
        prop_assert_eq!(
            family.all.allocated - family.all.freed,
            family.all.current,
            "{}",
            name
        );
    }
    Ok(())
}

fn observed(device: &Device) -> Vec<(u64, usize, bool)> {
    let as_seen = |block: &BlockInfo| {
        let size = usize::try_from(block.size).expect("a size");
        (block.address, size, block.state == BlockState::Allocated)
    };
    let segments = snapshot(device).segments;
    segments
        .iter()
        .flat_map(|s| s.blocks.iter().map(as_seen))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[gpu_leak_check]
    #[test]
    fn every_block_is_where_the_rules_put_it(steps in steps()) {
        let device = super::embedded(Policy::Caching);
        let at_first = device_memory(&device).unwrap();
        let mut model = Model::default();
        let mut kept: Vec<Buffer> = Vec::new();
        for step in steps {
            match step {
                Step::Take(bytes) => {
                    let known: Vec<_> = model.segments.keys().copied().collect();
                    let buffer = Buffer::new(&device, bytes).unwrap();
                    let segments = snapshot(&device).segments;
                    let mut new = segments.iter().filter(|s| !known.contains(&s.address));
                    let grown = new.next().map(|s| {
                        assert_eq!(s.pool == PoolKind::Small, s.total_size == 2 * MIB as u64);
                        (s.address, usize::try_from(s.total_size).unwrap())
                    });
                    prop_assert_eq!(new.next(), None);
                    prop_assert_eq!(buffer.address(), model.take(bytes, grown));
                    kept.push(buffer);
                }
                Step::Drop(_) if kept.is_empty() => {}
                Step::Drop(place) => {
                    let buffer = kept.swap_remove(place % kept.len());
                    model.drop(buffer.address());
                }
                Step::EmptyCache => {
                    empty_cache(&device).unwrap();
                    model.empty_cache();
                }
            }
            prop_assert_eq!(observed(&device), model.blocks());
            check_figures(&model, &kept, &stats(&device))?;
        }
        drop(kept);
        empty_cache(&device).unwrap();
        prop_assert_eq!(observed(&device), vec![]);
        prop_assert_eq!(device_memory(&device).unwrap(), at_first);
    }

    /// If memory is short, requests fail or flush the cache. Existing buffers stay intact, and in
    /// the end all memory is returned.
    #[gpu_leak_check]
    #[test]
    fn running_out_of_memory_harms_nothing(steps in steps(), capacity in 8..64_usize) {
        let device = Device::embedded_with(gpu_leak_kernels::EmbeddedConfig {
            capacity: capacity * MIB,
            context_bytes: 2 * MIB,
            ..Default::default()
        }).unwrap();
        let at_first = device_memory(&device).unwrap();
        let mut kept: Vec<(Buffer, u8)> = Vec::new();
        let mut ooms = 0;
        for (step, mark) in steps.into_iter().zip((1..=u8::MAX).cycle()) {
            match step {
                Step::Take(bytes) => match Buffer::new(&device, bytes) {
                    Ok(mut buffer) => {
                        buffer.as_bytes_mut().unwrap()[bytes / 2] = mark;
                        kept.push((buffer, mark));
                    }
                    Err(Error::OutOfMemory(figures)) => {
                        ooms += 1;
                        prop_assert_eq!(figures.requested, bytes);
                        // Only segments that a buffer pins may still be in the cache.
                        for segment in snapshot(&device).segments {
                            prop_assert!(segment.active_size > 0);
                        }
                    }
                    Err(other) => panic!("{other}"),
                },
                Step::Drop(_) if kept.is_empty() => {}
                Step::Drop(place) => drop(kept.swap_remove(place % kept.len())),
                Step::EmptyCache => empty_cache(&device).unwrap(),
            }
            for (buffer, mark) in &kept {
                prop_assert_eq!(buffer.as_bytes().unwrap()[buffer.bytes() / 2], *mark);
            }
        }
        prop_assert_eq!(stats(&device).num_ooms, ooms);
        drop(kept);
        empty_cache(&device).unwrap();
        prop_assert_eq!(device_memory(&device).unwrap(), at_first);
    }
}
