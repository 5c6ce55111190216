//! Finds statics that belong to the program's own allocators. From such a static, all of an
//! allocator's blocks are reachable, even those that nothing else refers to.
//!
//! When an allocator reports a block for the first time, the program does not know the block's
//! address yet. So if a static already contains this address, the static belongs to the allocator:
//! it is, for example, a pointer to the beginning of the allocator's arena.

use std::time::{Duration, Instant};

use gpu_leak_holders::words_with;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::loader;
use crate::sync::{Mutex, locked};

static STATICS: Mutex<Statics> = Mutex::new(Statics {
    seen: FxHashSet::with_hasher(FxBuildHasher),
    left: Duration::from_millis(100),
    words: Vec::new(),
});

/// What has been read so far.
struct Statics {
    /// The addresses that were reported earlier. Statics may contain old copies of them.
    seen: FxHashSet<u64>,
    /// For how long statics may still be read.
    left: Duration,
    /// The addresses of the words through which statics were found.
    words: Vec<u64>,
}

/// Records that an allocator reports a block at `address`.
pub(super) fn reported(address: u64) {
    let mut statics = locked(&STATICS);
    if statics.left.is_zero() || !statics.seen.insert(address) {
        return;
    }
    let began = Instant::now();
    let found = words_with(address, &loader::writable_parts(), statics.left);
    statics.words.extend(found);
    statics.left = statics.left.saturating_sub(began.elapsed());
}

/// Returns the addresses of the words through which statics were found.
pub(super) fn words() -> Vec<u64> {
    locked(&STATICS).words.clone()
}
