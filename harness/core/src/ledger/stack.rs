//! Interns backtraces, so that a record stores an ID instead of frames.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, OnceLock, locked};
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::event::StackId;

const SHARDS: usize = 64;
const CHUNK: usize = 1024;
/// There are enough chunks for about a million distinct backtraces. Further backtraces are not
/// stored.
const CHUNKS: usize = 1024;

/// A block of backtraces, each as its return addresses, innermost first.
type Chunk = Box<[OnceLock<Box<[usize]>>]>;

thread_local! {
    /// The backtraces that this thread used last, by their hash. A program allocates at the same
    /// lines again and again, from many threads at once. Without this cache, all of these threads
    /// would contend for the lock of the same shard. An entry is only a guess, so a reader compares
    /// the frames. The entry also holds how often backtraces had been forgotten when it was
    /// written. Like everything else that a wrapper touches, the cache has no destructor.
    static RECENT: [Cell<(StackId, u32)>; RECENT_LEN] =
        const { [const { Cell::new((StackId(0), 0)) }; RECENT_LEN] };
}

/// The size of this cache, a power of two.
const RECENT_LEN: usize = 64;

/// All distinct backtraces.
#[derive(Debug)]
pub struct Stacks {
    /// Maps a backtrace's hash to its ID.
    numbers: Box<[Mutex<FxHashMap<u64, StackId>>]>,
    /// The entries by ID, in chunks that never move, so that reading needs no lock.
    chunks: Box<[OnceLock<Chunk>]>,
    next: AtomicU32,
    /// How often backtraces have been [forgotten](Self::forget).
    forgotten: AtomicU32,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            numbers: (0..SHARDS).map(|_| Mutex::default()).collect(),
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            next: AtomicU32::new(1),
            forgotten: AtomicU32::new(0),
        }
    }
}

impl Stacks {
    /// Returns the ID of a backtrace, which consists of return addresses, innermost first. The
    /// result is 0 if there are no frames, or if there are more distinct backtraces than can be
    /// stored.
    pub fn intern(&self, frames: &[usize]) -> StackId {
        if frames.is_empty() {
            return StackId::default();
        }
        self.look_up(frames, || self.add(frames))
            .unwrap_or_default()
    }

    /// Returns the ID of this backtrace if it has been interned.
    pub fn find(&self, frames: &[usize]) -> Option<StackId> {
        self.look_up(frames, || None)
    }

    /// Returns the ID of this backtrace. If it has none, returns the ID that `add` assigns.
    fn look_up(&self, frames: &[usize], add: impl Fn() -> Option<StackId>) -> Option<StackId> {
        let mut hasher = FxBuildHasher.build_hasher();
        for frame in frames {
            hasher.write_usize(*frame);
        }
        let hash = hasher.finish();
        let slot = (hash >> 32) as usize % RECENT_LEN;
        let forgotten = self.forgotten.load(Ordering::Relaxed);
        let (recent, at) = RECENT.with(|recent| recent[slot].get());
        if recent != StackId::default() && at == forgotten && self.frames(recent) == frames {
            return Some(recent);
        }
        let mut next = hash;
        let id = loop {
            let shard = &self.numbers[(next >> 32) as usize % SHARDS];
            let mut numbers = locked(shard);
            match numbers.get(&next) {
                Some(&id) if self.frames(id) == frames => break id,
                // If two backtraces have the same hash, the second one is stored under the next
                // value.
                Some(_) => next = next.wrapping_add(1),
                None => {
                    let id = add()?;
                    numbers.insert(next, id);
                    break id;
                }
            }
        };
        RECENT.with(|recent| recent[slot].set((id, forgotten)));
        Some(id)
    }

    fn add(&self, frames: &[usize]) -> Option<StackId> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(chunk) = self.chunks.get(number as usize / CHUNK) else {
            self.next.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        self.set(chunk, number, frames);
        Some(StackId(number))
    }

    /// From now on, backtraces through an address for which `is_gone` returns `true` get new IDs.
    /// The old IDs of these backtraces still refer to the same frames.
    pub fn forget(&self, is_gone: impl Fn(usize) -> bool) {
        let is_kept = |id| !self.frames(id).iter().any(|address| is_gone(*address));
        for shard in &self.numbers {
            locked(shard).retain(|_, id| is_kept(*id));
        }
        self.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that differs for each table, and changes when backtraces are forgotten.
    pub fn state(&self) -> usize {
        let forgotten = self.forgotten.load(Ordering::Relaxed) as usize;
        std::ptr::from_ref(self).addr() ^ forgotten << 32
    }

    /// Stores `frames` under the ID that they had in another process. Returns `false` if there are
    /// no frames, if no backtrace can have this ID, or if the ID is in use. [`Self::intern`] does
    /// not find backtraces that were stored in this way.
    pub fn restore(&self, id: StackId, frames: &[usize]) -> bool {
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

    /// Returns the ID after the last one assigned. The last backtraces may not be stored yet.
    pub fn end(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    fn set(&self, chunk: &OnceLock<Chunk>, number: u32, frames: &[usize]) {
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        chunk[number as usize % CHUNK].get_or_init(|| frames.into());
    }

    fn entry(&self, id: StackId) -> Option<&[usize]> {
        let chunk = self.chunks.get(id.0 as usize / CHUNK)?.get()?;
        chunk[id.0 as usize % CHUNK].get().map(|frames| &**frames)
    }

    /// Returns the return addresses, innermost first. The result is empty for 0.
    pub fn frames(&self, id: StackId) -> &[usize] {
        self.entry(id).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::{StackId, Stacks};

    #[test]
    fn equal_stacks_share_a_number_and_others_do_not() {
        let stacks = Stacks::default();
        let first = stacks.intern(&[1, 2, 3]);
        assert_eq!(first, stacks.intern(&[1, 2, 3]));
        assert_ne!(first, stacks.intern(&[1, 2]));
        assert_eq!(stacks.frames(first), [1, 2, 3]);
        assert_eq!(stacks.intern(&[]), StackId(0));
        assert!(stacks.frames(StackId(0)).is_empty());
    }

    #[test]
    fn a_backtrace_is_found_after_it_was_interned_and_only_there() {
        let stacks = Stacks::default();
        assert_eq!(stacks.find(&[4, 5, 6]), None);
        let id = stacks.intern(&[4, 5, 6]);
        assert_eq!(stacks.find(&[4, 5, 6]), Some(id));
        assert_eq!(stacks.end(), id.0 + 1);
        assert_eq!(Stacks::default().find(&[4, 5, 6]), None, "of another set");
        // The cache of this thread may contain another backtrace.
        for frame in 0..1000 {
            let id = stacks.intern(&[frame]);
            assert_eq!(stacks.frames(id), [frame]);
            assert_eq!(stacks.intern(&[frame]), id);
        }
        assert_eq!(stacks.end(), id.0 + 1001);
    }

    #[test]
    fn backtraces_with_the_same_hash_have_different_numbers() {
        // This is the factor of rustc-hash, with which these two backtraces have the same hash.
        const FACTOR: usize = 0xf135_7aea_2e62_a9c5_u64 as usize;
        let stacks = Stacks::default();
        let pair = [[1, FACTOR], [2, 0]];
        let ids = pair.map(|frames| stacks.intern(&frames));
        assert_ne!(ids[0], ids[1]);
        for (frames, id) in pair.iter().zip(ids) {
            assert_eq!(stacks.frames(id), frames);
            assert_eq!(stacks.find(frames), Some(id));
        }
    }

    #[test]
    fn a_forgotten_backtrace_has_a_new_number_the_next_time() {
        let stacks = Stacks::default();
        let [kept, gone] = [[1, 2], [3, 2]];
        let before = [kept, gone].map(|frames| stacks.intern(&frames));
        let state = stacks.state();
        stacks.forget(|address| address == 3);
        assert_ne!(stacks.state(), state);
        assert_eq!(stacks.find(&gone), None);
        let after = [kept, gone].map(|frames| stacks.intern(&frames));
        assert_eq!(after[0], before[0]);
        assert_ne!(after[1], before[1]);
        assert_eq!(stacks.intern(&gone), after[1]);
        for id in [before[1], after[1]] {
            assert_eq!(stacks.frames(id), gone);
        }
    }

    #[test]
    fn a_backtrace_of_a_recording_keeps_its_number() {
        let stacks = Stacks::default();
        assert!(stacks.restore(StackId(2000), &[1, 2]));
        assert_eq!(stacks.frames(StackId(2000)), [1, 2]);
        assert_eq!(stacks.end(), 2001);
        assert_eq!(stacks.intern(&[3]), StackId(2001));
        assert!(!stacks.restore(StackId(2000), &[3]), "it is in use");
        assert_eq!(stacks.frames(StackId(2000)), [1, 2]);
        for (id, frames) in [(0, &[1][..]), (2002, &[]), (u32::MAX, &[1])] {
            assert!(!stacks.restore(StackId(id), frames));
        }
        assert!(stacks.restore(StackId(5), &[4]), "in any order");
        assert_eq!(stacks.end(), 2002);
    }

    #[test]
    fn a_backtrace_that_this_thread_knows_is_found_without_a_lock() {
        let stacks = Stacks::default();
        let id = stacks.intern(&[7, 8, 9]);
        let (locked, is_locked) = mpsc::channel();
        let (found, was_found) = mpsc::channel();
        let all = &stacks.numbers;
        thread::scope(|scope| {
            let another = scope.spawn(move || {
                let _all: Vec<_> = all.iter().map(|it| it.lock().unwrap()).collect();
                locked.send(()).unwrap();
                was_found.recv_timeout(Duration::from_secs(20))
            });
            is_locked.recv().unwrap();
            assert_eq!(stacks.intern(&[7, 8, 9]), id);
            // If the lookup had waited for a lock, the other thread would have given up.
            _ = found.send(());
            assert_eq!(another.join().unwrap(), Ok(()));
        });
    }
}
