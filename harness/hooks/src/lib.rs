//! What the code of a GPU library may tell [gpu-leak-check], from its own `src/`.
//!
//! A dev-dependency cannot be named outside tests. This crate can: it has no dependencies, needs no
//! standard library, and costs one relaxed load a call until a check runs in the process.
//!
//! ```
//! use gpu_leak_hooks as hooks;
//!
//! fn lookup_table() -> u64 {
//!     // Made once and kept for the life of the process, on purpose.
//!     hooks::allow("the lookup table is shared by all models", || allocate(1 << 20))
//! }
//!
//! fn into_raw(address: u64) -> u64 {
//!     // The caller frees it from here on.
//!     hooks::hand_over(address);
//!     address
//! }
//!
//! static POOL: hooks::Source = hooks::Source::new("my-pool", &["my-pool/src/"]);
//!
//! fn allocate(bytes: u64) -> u64 {
//!     let address = 0x7f00_0000_0000; // from the pool
//!     POOL.allocated(hooks::Place::Cuda(0), address, bytes);
//!     address
//! }
//! # into_raw(lookup_table());
//! ```
//!
//! [gpu-leak-check]: https://docs.rs/gpu-leak-check
#![no_std]

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What a harness does with what it is told.
///
/// For harnesses; libraries call the functions of this crate.
#[derive(Debug)]
pub struct Hooks {
    /// What this thread makes from now on may stay, for this reason. Answers what
    /// [`Self::end_allow`] is to be given.
    pub begin_allow: fn(&'static str) -> u64,
    /// That ends.
    pub end_allow: fn(u64),
    /// The owner of what lies at this address is somebody else from now on.
    pub hand_over: fn(u64),
    /// An allocator has handed something out.
    pub allocated: fn(&Source, Place, u64, u64),
    /// It is about to take something back.
    pub freed: fn(&Source, u64),
}

/// The harness of this process. Null: there is none.
static HOOKS: AtomicPtr<Hooks> = AtomicPtr::new(core::ptr::null_mut());

/// Tells `hooks` from now on. The last call counts.
pub fn install(hooks: &'static Hooks) {
    HOOKS.store(core::ptr::from_ref(hooks).cast_mut(), Ordering::Release);
}

#[expect(
    unsafe_code,
    reason = "the pointer of an atomic, made from a reference"
)]
fn hooks() -> Option<&'static Hooks> {
    let hooks = HOOKS.load(Ordering::Relaxed);
    if hooks.is_null() {
        return None;
    }
    // What it points to was written before it was installed.
    core::sync::atomic::fence(Ordering::Acquire);
    // SAFETY: `install` alone stores here, and stores a shared reference that is never freed.
    Some(unsafe { &*hooks })
}

/// Where bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The CUDA device with this ordinal.
    Cuda(u32),
    /// The host's memory.
    Host,
    /// A device of another API, by its name: `wgpu:0`.
    Named(&'static str),
}

/// Runs `body`; what it makes on this thread, and on threads that it starts, may stay for `reason`.
///
/// A check counts it with its bytes as `allowed`, and fails nothing by it. What is freed later is
/// simply gone. Of several reasons around one place the innermost is told.
///
/// A budget counts it all the same, for it says how much there may be at once; and a free that fails
/// inside is a mistake like any other. Outside every check nothing happens: what is there before a
/// check is its baseline.
pub fn allow<R>(reason: &'static str, body: impl FnOnce() -> R) -> R {
    /// Ends it also when `body` panics.
    struct Ending(Option<(&'static Hooks, u64)>);

    impl Drop for Ending {
        fn drop(&mut self) {
            if let Some((hooks, token)) = self.0 {
                (hooks.end_allow)(token);
            }
        }
    }

    let _ending = Ending(hooks().map(|hooks| (hooks, (hooks.begin_allow)(reason))));
    body()
}

/// What lies at `address` belongs to somebody else from now on: it was handed over on purpose, as
/// `into_raw` or an export to another framework does. A check that ran when it was made does not
/// ask for it any more, and notes how much it was.
///
/// The address is that at which memory begins, on a device or in the host's memory, or the handle of
/// a stream, an event or another object. Where an allocator's block begins with its segment, the
/// block is meant. Of virtual memory it is the map that begins there, with its physical memory and,
/// where that begins there too, the range of addresses. What nobody knows, and a number that is the
/// handle of two kinds of objects, changes nothing.
pub fn hand_over(address: u64) {
    if let Some(hooks) = hooks() {
        (hooks.hand_over)(address);
    }
}

/// An allocator that reports what it hands out: the layer `allocator:NAME` of a report.
#[derive(Debug)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// Pieces of the paths of its own source files (`my-pool/src/`): a report points at the first
    /// line outside them, the allocator's user.
    pub own_sources: &'static [&'static str],
    /// What the harness calls it, so that it need not be looked up each time. 0: they have not met.
    pub number: AtomicU32,
}

impl Source {
    /// An allocator called `name`, whose own source files have these pieces in their paths.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self {
            name,
            own_sources,
            number: AtomicU32::new(0),
        }
    }

    /// It has handed out `bytes` at `address`. Call it after the fact.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if let Some(hooks) = hooks() {
            (hooks.allocated)(self, place, address, bytes);
        }
    }

    /// `address` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if let Some(hooks) = hooks() {
            (hooks.freed)(self, address);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::sync::Mutex;
    use std::vec::Vec;

    use super::{Hooks, Place, Source, allow, hand_over, install};

    static TOLD: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());

    fn tell(what: &'static str, value: u64) {
        TOLD.lock().unwrap().push((what, value));
    }

    #[test]
    fn nothing_happens_until_a_harness_is_there_and_everything_is_told_afterwards() {
        static POOL: Source = Source::new("pool", &[]);
        static HOOKS: Hooks = Hooks {
            begin_allow: |reason| {
                tell(reason, 0);
                7
            },
            end_allow: |token| tell("end", token),
            hand_over: |address| tell("hand over", address),
            allocated: |source, _, address, _| tell(source.name, address),
            freed: |_, address| tell("freed", address),
        };
        hand_over(1);
        assert_eq!(allow("early", || 3), 3);
        install(&HOOKS);
        POOL.allocated(Place::Cuda(0), 5, 10);
        POOL.freed(5);
        hand_over(2);
        let outcome = std::panic::catch_unwind(|| allow("a reason", || std::panic!("inside")));
        assert!(outcome.is_err());
        assert_eq!(
            *TOLD.lock().unwrap(),
            [
                ("pool", 5),
                ("freed", 5),
                ("hand over", 2),
                ("a reason", 0),
                ("end", 7)
            ]
        );
    }
}
