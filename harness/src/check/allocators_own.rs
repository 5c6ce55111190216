//! Finds the statics of the program's own allocators, which lead to blocks that nobody else has.
//!
//! When an allocator reports a block for the first time, the program does not know its address yet. So a
//! static that has the address already is the allocator's, for example the beginning of its arena.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::device::dl;
use crate::sync::{Mutex, locked};

/// How long all statics are read in one process.
const LONGEST: Duration = Duration::from_millis(100);
/// How much is read at once.
const PART: usize = 64 << 10;
/// Lower addresses are no pointers: numbers like them stand everywhere.
const LOWEST: u64 = 1 << 32;

static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static STATICS: Mutex<Option<Statics>> = Mutex::new(None);

/// Examines all blocks that allocators report from now on.
pub(super) fn watch() {
    let read = File::open("/proc/self/mem").map(|memory| Statics {
        memory,
        part: vec![0; PART],
        seen: FxHashSet::default(),
        left: LONGEST,
        words: Vec::new(),
    });
    *locked(&STATICS) = read.ok();
    IS_WATCHING.store(true, Ordering::Relaxed);
}

/// Records that an allocator reports a block at `address`.
pub(super) fn reported(address: u64) {
    if IS_WATCHING.load(Ordering::Relaxed)
        && let Some(statics) = &mut *locked(&STATICS)
    {
        statics.reported(address);
    }
}

/// Returns the addresses of the words by which statics were found.
pub(super) fn words() -> Vec<u64> {
    let statics = locked(&STATICS);
    statics
        .as_ref()
        .map_or_else(Vec::new, |it| it.words.clone())
}

/// What has been read so far.
struct Statics {
    /// The memory of this process, which is read by the kernel: a library may be unloaded meanwhile.
    memory: File,
    part: Vec<u8>,
    /// The addresses that were reported: of those, statics may have old copies.
    seen: FxHashSet<u64>,
    left: Duration,
    words: Vec<u64>,
}

impl Statics {
    fn reported(&mut self, address: u64) {
        if address < LOWEST || self.left.is_zero() || !self.seen.insert(address) {
            return;
        }
        let began = Instant::now();
        for range in writable() {
            self.read(range, address);
        }
        self.left = self.left.saturating_sub(began.elapsed());
    }

    /// Finds the words with this value.
    fn read(&mut self, range: Range<u64>, value: u64) {
        let mut at = range.start.next_multiple_of(8);
        while at < range.end {
            let bytes = (range.end - at).min(PART as u64) as usize;
            let read = self.memory.read_at(&mut self.part[..bytes], at);
            let read = read.unwrap_or(0);
            let words = self.part[..read].chunks_exact(8).zip(0..);
            let found = words.filter(|(word, _)| **word == value.to_ne_bytes());
            self.words.extend(found.map(|(_, index)| at + 8 * index));
            if read < bytes {
                return;
            }
            at += read as u64;
        }
    }
}

/// Returns the memory of the statics of the program and its libraries.
fn writable() -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    dl::each_writable_part(|part| ranges.push(part));
    ranges
}
