//! This thread's stack: its bounds, and its words.

use std::arch::asm;
use std::cell::Cell;
use std::mem::MaybeUninit;

thread_local! {
    /// The lowest and the highest address of this thread's stack; `None` until they are queried,
    /// and empty if the system does not provide them. This has no destructor, because a wrapper can
    /// be called from the destructor of another thread-local.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// The part of this thread's stack that belongs to a frame and its callers.
pub(super) struct StackWords {
    lowest: u64,
    /// The address after the last word.
    pub(super) end: u64,
    /// How many bytes of the stack are left below this part.
    pub(super) room: usize,
}

impl StackWords {
    /// Returns the words above this stack pointer; `None` if it does not point into this thread's
    /// stack, as in a fibre.
    pub(super) fn above(pointer: usize) -> Option<Self> {
        let (low, high) = BOUNDS.get().unwrap_or_else(|| {
            let bounds = ask().unwrap_or_default();
            BOUNDS.set(Some(bounds));
            bounds
        });
        (low <= pointer && pointer < high).then(|| Self {
            lowest: pointer as u64,
            end: (high - high % size_of::<u64>()) as u64,
            room: pointer - low,
        })
    }

    #[cfg(test)]
    pub(super) fn of(words: &[u64]) -> Self {
        let words = words.as_ptr_range();
        Self {
            lowest: words.start.expose_provenance() as u64,
            end: words.end.addr() as u64,
            room: 0,
        }
    }

    /// Reads the word at `address`; `None` if there is none.
    pub(super) fn read(&self, address: u64) -> Option<u64> {
        self.contains(address).then(|| {
            // SAFETY: `contains` has verified that this is the address of one of these words.
            unsafe { load(address) }
        })
    }

    /// Whether the word at `address` equals `word`.
    #[inline(always)]
    pub(super) fn has(&self, address: u64, word: u64) -> bool {
        // SAFETY: `contains` has verified that this is the address of one of these words.
        self.contains(address) && unsafe { load(address) } == word
    }

    #[inline(always)]
    fn contains(&self, address: u64) -> bool {
        address >= self.lowest && address < self.end && address & 7 == 0
    }
}

/// Reads a word of this thread's stack. It does not use std's atomic types, because an unoptimised
/// build executes sixty instructions for each of their loads, and a backtrace reads a hundred
/// words.
///
/// # Safety
///
/// The address must point to an aligned word between the stack pointer of a frame that has not
/// returned (a walk ends before its caller returns) and the end of this thread's stack: mapped,
/// readable, and of no particular type.
#[inline(always)]
unsafe fn load(address: u64) -> u64 {
    let word;
    // SAFETY: the word is readable, as the caller promises. The load is atomic on both
    // architectures: another thread may write to memory that a frame has lent to it, and the words
    // are only compared with addresses, bounds and earlier words.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, [{}]", out(reg) word, in(reg) address, options(readonly, nostack, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("ldr {}, [{}]", out(reg) word, in(reg) address, options(readonly, nostack, preserves_flags));
    }
    word
}

fn ask() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: this thread is alive, and the attributes are writable.
    let error = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if error != 0 {
        return None;
    }
    let mut low = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the call above has initialised the attributes, and they are destroyed once, at the
    // end.
    let error = unsafe {
        let error = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        error
    };
    let low = low.expose_provenance();
    (error == 0).then_some((low, low.checked_add(size)?))
}
