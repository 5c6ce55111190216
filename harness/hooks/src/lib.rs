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
//!
//! A program may have several versions of this crate, as its libraries ask for them: on Linux they
//! all reach the same harness.
#![no_std]

mod interface;

use core::sync::atomic::AtomicU32;

pub use self::interface::install;
use self::interface::{AnyPlace, Interface, harness};

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
    /// It is about to take something back: where, if its addresses are [per
    /// place](PlacedSource).
    pub freed: fn(&Source, Option<Place>, u64),
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
    struct Ending(Option<(&'static Interface, u64)>);

    impl Drop for Ending {
        fn drop(&mut self) {
            if let Some((harness, token)) = self.0 {
                (harness.end_allow)(token);
            }
        }
    }

    let _ending = Ending(harness().map(|harness| (harness, (harness.begin_allow)(reason))));
    body()
}

/// What lies at `address` belongs to somebody else from now on: it was handed over on purpose, as
/// `into_raw` or an export to another framework does. A check that ran when it was made does not
/// ask for it any more, and notes how much it was.
///
/// The address is that at which memory begins, on a device or in the host's memory, or the handle of
/// a stream, an event or another object. Where an allocator's block begins with its segment, the
/// block is meant. Of virtual memory it is the map that begins there, with its physical memory and,
/// where that begins there too, the range of addresses. What nobody knows, a number that is the
/// handle of two kinds of objects, and an address that a [`PlacedSource`] uses in two places change
/// nothing.
pub fn hand_over(address: u64) {
    if let Some(harness) = harness() {
        (harness.hand_over)(address);
    }
}

/// An allocator that reports what it hands out: the layer `allocator:NAME` of a report.
///
/// An address of it is in use once, wherever it is. Where each of its places counts addresses from
/// the beginning, it is a [`PlacedSource`].
// Every version of this crate has these fields in this order: see `interface`.
#[derive(Debug)]
#[repr(C)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// Pieces of the paths of its own source files (`my-pool/src/`): a report points at the first
    /// line outside them, the allocator's user.
    pub own_sources: &'static [&'static str],
    /// What the harness calls it, so that it need not be looked up each time. 0: they have not met.
    pub number: AtomicU32,
    /// Whether its addresses are per place.
    pub per_place: bool,
}

impl Source {
    /// An allocator called `name`, whose own source files have these pieces in their paths.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self {
            name,
            own_sources,
            number: AtomicU32::new(0),
            per_place: false,
        }
    }

    /// It has handed out `bytes` at `address`. Call it after the fact.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if let Some(harness) = harness() {
            harness.allocated(self, place, address, bytes);
        }
    }

    /// `address` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if let Some(harness) = harness() {
            harness.freed(self, AnyPlace::NONE, address);
        }
    }
}

/// As [`Source`], of an allocator whose devices have addresses of their own: the same address may be
/// in use on two of them, and a free names the one it is about.
///
/// ```
/// use gpu_leak_hooks::{Place, PlacedSource};
///
/// static HEAPS: PlacedSource = PlacedSource::new("my-heaps", &["my-heaps/src/"]);
///
/// // Offsets into each device's heap.
/// HEAPS.allocated(Place::Named("npu:0"), 0x1000, 64);
/// HEAPS.allocated(Place::Named("npu:1"), 0x1000, 64);
/// HEAPS.freed(Place::Named("npu:0"), 0x1000);
/// HEAPS.freed(Place::Named("npu:1"), 0x1000);
/// ```
#[derive(Debug)]
pub struct PlacedSource(Source);

impl PlacedSource {
    /// An allocator called `name`, whose own source files have these pieces in their paths.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self(Source {
            name,
            own_sources,
            number: AtomicU32::new(0),
            per_place: true,
        })
    }

    /// It has handed out `bytes` at `address` of `place`. Call it after the fact.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        self.0.allocated(place, address, bytes);
    }

    /// `address` of `place` comes back. Call it before the allocator can hand it out again.
    #[inline]
    pub fn freed(&self, place: Place, address: u64) {
        if let Some(harness) = harness() {
            harness.freed(&self.0, AnyPlace::of(place), address);
        }
    }

    /// What a harness is told of it.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::{String, ToString};
    use std::sync::Mutex;
    use std::vec::Vec;

    use super::{Hooks, Place, PlacedSource, Source, allow, hand_over, install};

    static TOLD: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

    fn tell(what: impl Into<String>, value: u64) {
        TOLD.lock().unwrap().push((what.into(), value));
    }

    fn told(name: &str, place: Option<Place>) -> String {
        std::format!("{name} {place:?}")
    }

    #[test]
    fn nothing_happens_until_a_harness_is_there_and_everything_is_told_afterwards() {
        static POOL: Source = Source::new("pool", &[]);
        static HEAPS: PlacedSource = PlacedSource::new("heaps", &[]);
        static HOOKS: Hooks = Hooks {
            begin_allow: |reason| {
                tell(reason, 0);
                7
            },
            end_allow: |token| tell("end", token),
            hand_over: |address| tell("hand over", address),
            allocated: |source, place, address, _| tell(told(source.name, Some(place)), address),
            freed: |_, place, address| tell(told("freed", place), address),
        };
        hand_over(1);
        assert_eq!(allow("early", || 3), 3);
        install(&HOOKS);
        POOL.allocated(Place::Cuda(3), 5, 10);
        POOL.allocated(Place::Host, 6, 10);
        POOL.freed(5);
        HEAPS.allocated(Place::Named("npu:0"), 7, 10);
        HEAPS.freed(Place::Named("npu:0"), 7);
        hand_over(2);
        let outcome = std::panic::catch_unwind(|| allow("a reason", || std::panic!("inside")));
        assert!(outcome.is_err());
        assert_eq!(
            *TOLD.lock().unwrap(),
            [
                ("pool Some(Cuda(3))", 5),
                ("pool Some(Host)", 6),
                ("freed None", 5),
                ("heaps Some(Named(\"npu:0\"))", 7),
                ("freed Some(Named(\"npu:0\"))", 7),
                ("hand over", 2),
                ("a reason", 0),
                ("end", 7)
            ]
            .map(|(what, value)| (what.to_string(), value))
        );
    }
}
