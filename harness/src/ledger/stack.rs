//! Stacks, each kept once: a record holds a number instead of its frames.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, OnceLock, PoisonError};
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::event::{ScopeId, StackId};

const SHARDS: usize = 64;
const CHUNK: usize = 1024;
/// About a million distinct stacks; what comes after them has no stack.
const CHUNKS: usize = 1024;

/// One distinct stack.
#[derive(Debug)]
struct Entry {
    /// Return addresses, innermost first.
    frames: Box<[usize]>,
    /// The scope that last took something here, and how often, in one atomic (upper and lower
    /// half). With parallel scopes on one stack the figure is that of the last to come.
    taken: AtomicU64,
}

type Chunk = Box<[OnceLock<Entry>]>;

thread_local! {
    /// The stacks that this thread met last, by their hash. A program allocates at the same lines
    /// again and again, from many threads at once: without this all of them would meet at the lock
    /// of that stack's shard. A guess and no more: whoever takes a number from here compares the
    /// frames behind it. Without a destructor, as everything that a callback touches.
    static MET: [Cell<StackId>; MEMORY] = const { [const { Cell::new(StackId(0)) }; MEMORY] };
}

/// A power of two.
const MEMORY: usize = 64;

fn known_to_this_thread(hash: u64) -> StackId {
    MET.with(|met| met[(hash >> 32) as usize % MEMORY].get())
}

fn remember(hash: u64, id: StackId) {
    MET.with(|met| met[(hash >> 32) as usize % MEMORY].set(id));
}

/// Every distinct stack seen.
#[derive(Debug)]
pub struct Stacks {
    /// From a stack's hash to its number.
    numbers: Box<[Mutex<FxHashMap<u64, StackId>>]>,
    /// The entries by number, in chunks that never move, so that reading needs no lock.
    chunks: Box<[OnceLock<Chunk>]>,
    next: AtomicU32,
}

impl Stacks {
    pub(super) fn new() -> Self {
        Self {
            numbers: (0..SHARDS).map(|_| Mutex::default()).collect(),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            next: AtomicU32::new(1),
        }
    }

    /// The number of this stack: return addresses, innermost first. No frames, or more distinct
    /// stacks than can be kept, give 0.
    #[must_use]
    pub fn intern(&self, frames: &[usize]) -> StackId {
        if frames.is_empty() {
            return StackId::default();
        }
        let mut hasher = FxBuildHasher.build_hasher();
        for frame in frames {
            hasher.write_usize(*frame);
        }
        let hash = hasher.finish();
        let known = known_to_this_thread(hash);
        if self.frames(known) == frames {
            return known;
        }
        let id = self.find_or_add(hash, frames);
        remember(hash, id);
        id
    }

    fn find_or_add(&self, mut hash: u64, frames: &[usize]) -> StackId {
        loop {
            let shard = &self.numbers[(hash >> 32) as usize % SHARDS];
            let mut numbers = shard.lock().unwrap_or_else(PoisonError::into_inner);
            match numbers.get(&hash) {
                Some(&id) if self.frames(id) == frames => return id,
                // Two stacks with one hash: the next number is the second one's.
                Some(_) => hash = hash.wrapping_add(1),
                None => {
                    let id = self.add(frames);
                    numbers.insert(hash, id);
                    return id;
                }
            }
        }
    }

    fn add(&self, frames: &[usize]) -> StackId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(chunk) = self.chunks.get(number as usize / CHUNK) else {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return StackId::default();
        };
        self.set(chunk, number, frames);
        StackId(number)
    }

    /// Keeps `frames` under the number that they had in another process; false when that is no
    /// number of a stack, or has one already. [`Self::intern`] does not find them.
    pub(crate) fn restore(&self, id: StackId, frames: &[usize]) -> bool {
        let Some(chunk) = self.chunks.get(id.0 as usize / CHUNK) else {
            return false;
        };
        if id == StackId::default() || frames.is_empty() || self.entry(id).is_some() {
            return false;
        }
        self.next.fetch_max(id.0 + 1, Ordering::Relaxed);
        self.set(chunk, id.0, frames);
        true
    }

    /// The number after the last one given. The stacks of the last ones may not be there yet.
    pub(crate) fn end(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    fn set(&self, chunk: &OnceLock<Chunk>, number: u32, frames: &[usize]) {
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        chunk[number as usize % CHUNK].get_or_init(|| Entry {
            frames: frames.into(),
            taken: AtomicU64::new(0),
        });
    }

    fn entry(&self, id: StackId) -> Option<&Entry> {
        self.chunks.get(id.0 as usize / CHUNK)?.get()?[id.0 as usize % CHUNK].get()
    }

    /// The return addresses, innermost first; empty for 0.
    #[must_use]
    pub fn frames(&self, id: StackId) -> &[usize] {
        self.entry(id).map_or(&[], |entry| &entry.frames)
    }

    /// Notes that `scope` took something here.
    pub(super) fn took(&self, id: StackId, scope: ScopeId) {
        let Some(entry) = self.entry(id) else { return };
        let mine = u64::from(scope.0) << 32;
        let is_mine = |value: u64| value & !0xffff_ffff == mine;
        // Nearly always: one addition, which no other thread can make fail. A scope that comes
        // between the two gains one, and the figure is then its own.
        if is_mine(entry.taken.load(Ordering::Relaxed)) {
            entry.taken.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let add = |value| Some(if is_mine(value) { value + 1 } else { mine + 1 });
        let _ = entry
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// How often `scope` took something here, if it was the last scope to do so.
    #[must_use]
    pub fn taken(&self, id: StackId, scope: ScopeId) -> Option<u64> {
        let value = self.entry(id)?.taken.load(Ordering::Relaxed);
        (value >> 32 == u64::from(scope.0)).then_some(value & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::{ScopeId, StackId, Stacks};

    #[test]
    fn equal_stacks_share_a_number_and_others_do_not() {
        let stacks = Stacks::new();
        let first = stacks.intern(&[1, 2, 3]);
        assert_eq!(first, stacks.intern(&[1, 2, 3]));
        assert_ne!(first, stacks.intern(&[1, 2]));
        assert_eq!(stacks.frames(first), [1, 2, 3]);
        assert_eq!(stacks.intern(&[]), StackId(0));
        assert!(stacks.frames(StackId(0)).is_empty());
    }

    #[test]
    fn a_stack_counts_for_the_scope_that_uses_it() {
        let stacks = Stacks::new();
        let id = stacks.intern(&[9]);
        for _ in 0..3 {
            stacks.took(id, ScopeId(4));
        }
        assert_eq!(stacks.taken(id, ScopeId(4)), Some(3));
        stacks.took(id, ScopeId(5));
        assert_eq!(stacks.taken(id, ScopeId(5)), Some(1));
        assert_eq!(stacks.taken(id, ScopeId(4)), None);
    }
}
