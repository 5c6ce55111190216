//! framehop's caches, each of which is lent to one walk at a time.
//!
//! They belong to the process rather than to a thread. Each check runs on its own thread, which
//! would begin with an empty cache. In addition, a thread-local with a destructor could not be used
//! by a wrapper that is called while the thread's locals are being destroyed.

use std::sync::{Mutex, MutexGuard, TryLockError};

use framehop::{
    CacheNative, FrameAddress, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder,
};

use super::frame;
use super::modules::UnwindModules;
use super::steps::{KnownSteps, UnwoundFrame};
use super::walks::KnownWalks;
use crate::capture::thread;

type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// The number of caches. A cache holds about 500 addresses, each in one fixed slot. With a single
/// cache, a stack of 35 frames usually contains two addresses that evict each other, and each of
/// these two costs as much as all others together.
const BANKS: usize = 8;

/// The number of bytes of stack that are needed to create the caches. An unoptimised build copies
/// each cache several times before it is on the heap.
const ROOM: usize = 256 << 10;
/// The number of bytes of stack that are needed for a walk in an unoptimised build, which copies
/// rows of the tables.
const ROOM_FOR_A_WALK: usize = 64 << 10;

/// framehop's caches.
pub(super) struct CachedRules([Cache; BANKS]);

/// The results of earlier walks that later walks use.
pub(super) struct Caches {
    pub(super) walks: KnownWalks,
    pub(super) steps: KnownSteps,
    pub(super) rules: CachedRules,
}

/// Returns the caller of the frame with this frame pointer if the caller's own frame pointer is 0.
/// framehop ends there, but the exact unwinder also returns this caller, the code in which the
/// thread or the program begins.
#[cfg(target_arch = "aarch64")]
fn caller_without_frame(
    frame_pointer: u64,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<UnwoundFrame> {
    let [own, address] = [frame_pointer, frame_pointer.checked_add(8)?].map(read);
    let address = super::SIGNATURE_MASK.strip_ptr_auth(address.ok()?);
    (own.ok()? == 0 && address != 0).then_some(UnwoundFrame {
        address,
        stack_pointer: frame_pointer + 16,
        frame_pointer: 0,
    })
}

/// A slot for caches, in its own cache line to avoid false sharing. It is locked while a walk uses
/// its caches.
#[repr(align(128))]
struct Place(Mutex<Option<Box<Caches>>>);

/// There are never more caches than there have been simultaneous walks.
static PLACES: [Place; 64] = [const { Place(Mutex::new(None)) }; 64];

/// The slot that one walk has locked. Its caches exist, or there is enough stack to create them.
pub(super) struct Borrowed(MutexGuard<'static, Option<Box<Caches>>>);

/// Returns the caches that this thread used last, or those of another thread, or a slot for new
/// ones. `room` is the number of bytes left on the stack. Returns `None` if that is not enough, or
/// if as many walks as there are slots are in progress.
pub(super) fn borrow(room: usize) -> Option<Borrowed> {
    if cfg!(debug_assertions) && room < ROOM_FOR_A_WALK {
        return None;
    }
    let (others, preferred) = PLACES.split_at(thread::number().0 as usize % PLACES.len());
    let mut empty = None;
    for place in preferred.iter().chain(others) {
        match place.lock() {
            Some(slot) if slot.is_some() => return Some(Borrowed(slot)),
            Some(slot) if empty.is_none() => empty = Some(slot),
            _ => {}
        }
    }
    empty.filter(|_| room >= ROOM).map(Borrowed)
}

impl Place {
    /// Locks the slot, unless a walk has locked it. The caches are always valid, even if a walk
    /// panicked.
    fn lock(&self) -> Option<MutexGuard<'_, Option<Box<Caches>>>> {
        match self.0.try_lock() {
            Ok(slot) => Some(slot),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Borrowed {
    /// Returns the caches for these modules.
    pub(super) fn of(&mut self, modules: &'static UnwindModules) -> &mut Caches {
        let caches = self.0.get_or_insert_with(|| {
            Box::new(Caches {
                walks: KnownWalks::new(),
                steps: KnownSteps::new(),
                rules: CachedRules(std::array::from_fn(|_| Cache::new_in())),
            })
        });
        let state = modules.state();
        caches.walks.keep_for(state);
        caches.steps.keep_for(state);
        caches
    }
}

impl CachedRules {
    /// Unwinds the frame with this address and these registers. Returns the frame's caller; `None`
    /// for a thread's first frame, or if the caller is unknown.
    pub(super) fn unwind(
        &mut self,
        modules: &UnwindModules,
        address: FrameAddress,
        mut registers: UnwindRegsNative,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<UnwoundFrame> {
        let cache = self.of(address.address_for_lookup());
        let unwinder = &modules.unwinder;
        let found = unwinder.unwind_frame(address, &mut registers, cache, read);
        let found = found.ok()?.filter(|found| *found != 0);
        let found = found.map(|found| frame(found, &registers));
        #[cfg(target_arch = "aarch64")]
        let found = found.or_else(|| caller_without_frame(registers.fp(), read));
        found
    }

    pub(super) fn of(&mut self, address: u64) -> &mut Cache {
        // The multiplier is derived from the golden ratio, so that the upper bits of the product
        // depend on all bits of the address.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &mut self.0[hash as usize % BANKS]
    }
}
