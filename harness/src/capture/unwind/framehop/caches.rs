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
/// 35 frames has a pair that drive each other out more often than not.
const BANKS: usize = 4;

type Caches = [Cache; BANKS];

/// In a cache line of its own, or the neighbours' threads would pay for each other's walks.
#[repr(align(128))]
struct Place(AtomicPtr<Caches>);

/// Where the caches lie while no one walks, by the thread's number.
static PLACES: [Place; 64] = [const { Place(AtomicPtr::new(ptr::null_mut())) }; 64];

/// The caches of one walk; they go back at its end.
pub(super) struct Borrowed {
    place: &'static Place,
    caches: ManuallyDrop<Box<Caches>>,
}

/// The caches that this thread used last, unless another has them: then new ones.
pub(super) fn borrow() -> Borrowed {
    let place = &PLACES[thread::number().0 as usize % PLACES.len()];
    let caches = take(place, ptr::null_mut());
    let caches = caches.unwrap_or_else(|| Box::new(std::array::from_fn(|_| Cache::new_in())));
    Borrowed {
        place,
        caches: ManuallyDrop::new(caches),
    }
}

/// What lies in this place, in exchange.
fn take(place: &Place, other: *mut Caches) -> Option<Box<Caches>> {
    let caches = place.0.swap(other, Ordering::AcqRel);
    // SAFETY: null, or what `Borrowed` has put there out of a box; whoever takes it owns it.
    (!caches.is_null()).then(|| unsafe { Box::from_raw(caches) })
}

impl Borrowed {
    /// The cache for an address. The low bits choose the place in it.
    pub(super) fn of(&mut self, address: u64) -> &mut Cache {
        &mut self.caches[(address >> 4) as usize % BANKS]
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: taken once, at the end.
        let caches = unsafe { ManuallyDrop::take(&mut self.caches) };
        // Another thread of this number may have put its own here: then one is enough.
        drop(take(self.place, Box::into_raw(caches)));
    }
}
