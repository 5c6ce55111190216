//! Records the program's own heap blocks while a run confirms a leak: where each block was
//! allocated, and which addresses the freed blocks contained.
//!
//! The block from which a leak is reachable, or was reachable until the block was freed, often
//! shows which function has the mistake. A backtrace for each block would slow down every test, so
//! backtraces are captured only in runs that confirm a leak, and only for a limited number of
//! blocks.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::{Duration, Instant};

use gpu_leak_interpose::{CLEARED, FreedBlock, HeapWatch, is_heap_watched, token, watch_heap};
use rustc_hash::FxHashMap;

use crate::exit;
use crate::ledger::{self, StackId};
use crate::recursion_guard::{quiet, try_quiet};
use crate::sync::{Mutex, locked};

/// The largest number of allocations, and of frees, that are recorded in a run.
const MOST: u32 = 1 << 16;
/// The largest number of bytes that are read from a freed block.
const READ: usize = 64 << 10;
const _: () = assert!(READ <= CLEARED);
/// The largest number of addresses in freed blocks that are recorded.
const MOST_ADDRESSES: usize = 1 << 18;
/// The time after which a run's blocks are no longer recorded.
const LONGEST: Duration = Duration::from_secs(2);
/// Values that can be addresses. All others are numbers or text.
const ADDRESSES: Range<u64> = 1 << 32..1 << 56;

static BLOCKS: Mutex<Option<Blocks>> = Mutex::new(None);

/// What has been recorded about the heap.
#[derive(Debug, Default)]
struct Blocks {
    /// The size of each live block and where it was allocated, by the block's address.
    live: FxHashMap<usize, (usize, StackId)>,
    allocated: u32,
    freed: u32,
    /// When recording stops; `None` before the first block is recorded.
    until: Option<Instant>,
    /// For each address, the most recently freed block that contained it.
    last: FxHashMap<u64, FreedHeapBlock>,
}

/// A freed block of the program's heap: when it was freed (as the number of the ledger's next
/// event), where it was freed, and where it had been allocated.
type FreedHeapBlock = (u64, StackId, StackId);

/// Records the program's heap blocks from now on, until the guard is dropped; `None` if they are
/// already being recorded, or if they cannot be seen.
pub(crate) fn watch() -> Option<WatchedHeap> {
    static WATCH: HeapWatch = HeapWatch { allocated, freed };
    let _quiet = quiet();
    // The lock is held, so the table is empty before the first block is reported.
    let mut blocks = locked(&BLOCKS);
    if blocks.is_some() || !watch_heap(Some(&WATCH)) {
        return None;
    }
    *blocks = Some(Blocks::default());
    Some(WatchedHeap {
        since: ledger::live().now(),
    })
}

/// A guard: while it exists, the program's heap blocks are recorded.
#[derive(Debug)]
pub(crate) struct WatchedHeap {
    /// The number that the ledger's next event had when recording began.
    since: u64,
}

impl Drop for WatchedHeap {
    fn drop(&mut self) {
        if exit::forked() {
            return;
        }
        let _quiet = quiet();
        watch_heap(None);
        let blocks = locked(&BLOCKS).take();
        drop(blocks);
    }
}

impl WatchedHeap {
    /// Whether the creation with this event number happened while blocks were being recorded.
    pub(crate) fn saw(&self, sequence: u64) -> bool {
        sequence >= self.since
    }

    /// Returns the live blocks, sorted by address. Each is limited to the part that contains no
    /// data of earlier owners. Returns none if some calls were not seen.
    pub(crate) fn live(&self) -> Vec<(Range<u64>, StackId)> {
        let _quiet = quiet();
        let blocks = locked(&BLOCKS);
        let is_complete = |blocks: &Blocks| blocks.allocated < MOST && is_heap_watched();
        let blocks = blocks.as_ref().filter(|blocks| is_complete(blocks));
        let live = blocks.into_iter().flat_map(|blocks| &blocks.live);
        let live = live.map(|(&start, &(bytes, stack))| {
            let start = start as u64;
            (
                start..start.saturating_add(bytes.min(CLEARED) as u64),
                stack,
            )
        });
        let mut live: Vec<_> = live.collect();
        live.sort_unstable_by_key(|(block, _)| block.start);
        live
    }

    /// Returns, for each of these address ranges, the most recently freed block that contained an
    /// address in the range, if it was freed after the event with the given number. The ranges must
    /// not overlap.
    pub(crate) fn last_freed(&self, ranges: &[(Range<u64>, u64)]) -> Vec<Option<FreedHeapBlock>> {
        let _quiet = quiet();
        let mut order: Vec<_> = (0..ranges.len()).collect();
        order.sort_by_key(|at| ranges[*at].0.start);
        let mut last: Vec<Option<FreedHeapBlock>> = vec![None; ranges.len()];
        let blocks = locked(&BLOCKS);
        let blocks = blocks.as_ref().filter(|_| is_heap_watched());
        for (address, block) in blocks.into_iter().flat_map(|blocks| &blocks.last) {
            let before = order.partition_point(|at| ranges[*at].0.start <= *address);
            let Some(&at) = before.checked_sub(1).and_then(|before| order.get(before)) else {
                continue;
            };
            let (range, after) = &ranges[at];
            if range.contains(address) && block.0 > *after {
                last[at] = last[at].max(Some(*block));
            }
        }
        last
    }
}

thread_local! {
    /// The number of guards that mark this thread as doing the harness's own work.
    static UNNOTED: Cell<u32> = const { Cell::new(0) };
}

/// A guard: while it exists, this thread's blocks count as the harness's own and are not reported
/// as holders.
pub(crate) struct Unnoted(PhantomData<*const ()>);

/// Begins the harness's own work.
pub(crate) fn unnoted() -> Unnoted {
    UNNOTED.set(UNNOTED.get() + 1);
    Unnoted(PhantomData)
}

impl Drop for Unnoted {
    fn drop(&mut self) {
        UNNOTED.set(UNNOTED.get() - 1);
    }
}

fn is_unnoted() -> bool {
    UNNOTED.try_with(Cell::get) != Ok(0)
}

/// Returns whether the block is recorded.
fn allocated(address: usize, bytes: usize) -> bool {
    let Some(_quiet) = try_quiet() else {
        return false;
    };
    // Only blocks of threads that belong to a check are recorded.
    let is_wanted = token() != 0 && !is_unnoted();
    let is_wanted = |blocks: &mut Blocks| {
        // A library may have freed an earlier block at this address without being seen.
        blocks.live.remove(&address);
        if !is_wanted || blocks.allocated >= MOST {
            return false;
        }
        let now = Instant::now();
        let is_late = now > *blocks.until.get_or_insert_with(|| now + LONGEST);
        blocks.allocated = if is_late { MOST } else { blocks.allocated + 1 };
        blocks.allocated < MOST
    };
    if !locked(&BLOCKS).as_mut().is_some_and(is_wanted) {
        return false;
    }
    let stack = super::exact_stack();
    let mut blocks = locked(&BLOCKS);
    let blocks = blocks.as_mut();
    blocks.is_some_and(|blocks| {
        blocks.live.insert(address, (bytes, stack));
        true
    })
}

/// Returns whether the block was recorded.
fn freed(block: &FreedBlock, is_moved: bool) -> bool {
    let Some(_quiet) = try_quiet() else {
        return false;
    };
    let mut addresses = Vec::new();
    let allocated = {
        let mut blocks = locked(&BLOCKS);
        let Some(blocks) = &mut *blocks else {
            return false;
        };
        let Some((bytes, allocated)) = blocks.live.remove(&block.address()) else {
            return false;
        };
        if is_moved || blocks.freed >= MOST || is_unnoted() {
            return true;
        }
        blocks.freed += 1;
        let is_address =
            |word: &u64| ADDRESSES.contains(word) && !blocks.live.contains_key(&(*word as usize));
        addresses.extend(block.words(bytes.min(READ)).filter(is_address));
        if blocks.last.len() + addresses.len() > MOST_ADDRESSES {
            // Without this block's addresses, the recorded state would be out of date.
            blocks.last.clear();
            blocks.freed = MOST;
            return true;
        }
        allocated
    };
    if !addresses.is_empty() {
        let block = (ledger::live().now(), super::exact_stack(), allocated);
        if let Some(blocks) = &mut *locked(&BLOCKS) {
            let addresses = addresses.into_iter();
            blocks
                .last
                .extend(addresses.map(|address| (address, block)));
        }
    }
    true
}
