//! What framehop has learned of return addresses, lent to one walk at a time.
//!
//! Kept by the process and not by the thread: each check runs on a thread of its own, which would
//! begin with nothing; and a thread-local with something to free could not be used by a callback
//! that comes while the thread's locals are being destroyed.

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use framehop::{CacheNative, MustNotAllocateDuringUnwind};

use crate::capture::thread;

type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// A cache has room for some 500 addresses, each in one place only. With one of them, a stack of
/// 35 frames has a pair that drive each other out more often than not, and each of the two costs
/// as much as all the others.
const BANKS: usize = 8;

type Caches = [Cache; BANKS];

/// In a cache line of its own, or threads would pay for each other's walks.
#[repr(align(128))]
struct Place(AtomicPtr<Caches>);

/// Where caches lie while no one walks with them. There are never more of them than there were
/// walks at once.
static PLACES: [Place; 64] = [const { Place(AtomicPtr::new(ptr::null_mut())) }; 64];

/// The caches of one walk; they go back at its end.
pub(super) struct Borrowed(ManuallyDrop<Box<Caches>>);

/// The caches that this thread used last, else those of another, else new ones.
pub(super) fn borrow() -> Borrowed {
    let caches = places().find_map(take);
    let caches = caches.unwrap_or_else(|| Box::new(std::array::from_fn(|_| Cache::new_in())));
    Borrowed(ManuallyDrop::new(caches))
}

/// All places, this thread's first.
fn places() -> impl Iterator<Item = &'static Place> {
    let mine = thread::number().0 as usize % PLACES.len();
    PLACES[mine..].iter().chain(&PLACES[..mine])
}

/// What lies in this place.
fn take(place: &Place) -> Option<Box<Caches>> {
    if place.0.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let caches = place.0.swap(ptr::null_mut(), Ordering::Acquire);
    // SAFETY: null, or what `Borrowed` has put there out of a box; whoever takes it owns it.
    (!caches.is_null()).then(|| unsafe { Box::from_raw(caches) })
}

impl Borrowed {
    /// The cache for an address.
    pub(super) fn of(&mut self, address: u64) -> &mut Cache {
        // The golden ratio's: the upper bits of the product depend on all of the address.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &mut self.0[hash as usize % BANKS]
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: taken once, at the end.
        let caches = Box::into_raw(unsafe { ManuallyDrop::take(&mut self.0) });
        let put = |place: &Place| {
            let (free, set) = (ptr::null_mut(), Ordering::Release);
            let put = place
                .0
                .compare_exchange(free, caches, set, Ordering::Relaxed);
            put.is_ok()
        };
        if !places().any(put) {
            // SAFETY: made from a box above, and no place took it.
            drop(unsafe { Box::from_raw(caches) });
        }
    }
}
