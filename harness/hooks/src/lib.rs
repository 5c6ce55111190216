//! Lets a GPU library talk to [gpu-leak-check] from the code in its own `src/`.
//!
//! A dev-dependency can only be used in tests. This crate can be a normal dependency: it has no
//! dependencies, needs no standard library, and costs one relaxed load per call in a
//! program without checked tests.
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
//!     POOL.allocated(hooks::Place::cuda(0), address, bytes);
//!     address
//! }
//! # into_raw(lookup_table());
//! ```
//!
//! [gpu-leak-check]: https://docs.rs/gpu-leak-check
//!
//! A program may contain several versions of this crate, because its libraries may require
//! different ones. On Linux, all of them reach the same harness. A shared library that is opened at
//! run time and contains this crate does not reach the harness of the program.
#![no_std]

mod interface;

use core::sync::atomic::AtomicU32;

use self::interface::harness;
pub use self::interface::install;

/// The functions that a harness provides.
///
/// Only harnesses use this type. Libraries call the functions of this crate instead.
// Every version of this crate has these fields in this order (see `interface`).
#[derive(Debug)]
#[repr(C)]
pub struct Hooks {
    /// Begins a section in which resources that this thread creates may stay, for this reason.
    /// Returns the token for [`Self::end_allow`].
    pub begin_allow: fn(&'static str) -> u64,
    /// Ends the section with this token.
    pub end_allow: fn(u64),
    /// Records that the resource at this address has another owner from now on.
    pub hand_over: fn(u64),
    /// Records that an allocator has handed out memory.
    pub allocated: fn(&Source, &Place, u64, u64),
    /// Records that an allocator is about to take back memory. The place is given if the source is
    /// [per place](PlacedSource).
    pub freed: fn(&Source, Option<&Place>, u64),
}

/// An ELF note without contents. The name of its section shows that a program contains the hooks.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C)]
pub struct Note {
    name_length: u32,
    content_length: u32,
    kind: u32,
    name: [u8; 8],
}

impl Note {
    /// Creates the note.
    #[doc(hidden)]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            name_length: 8,
            content_length: 0,
            kind: 1,
            name: *b"gpuleak\0",
        }
    }
}

/// The place of an allocation, used in the same way as `gpu_leak_check::Place`.
///
/// ```
/// use gpu_leak_hooks::Place;
///
/// assert_eq!(Place::cuda(1).cuda_ordinal(), Some(1));
/// assert_eq!(Place::named("wgpu:0").name(), Some("wgpu:0"));
/// assert_ne!(Place::cuda(0), Place::HOST);
/// ```
// Every version of this crate has these fields in this order (see `interface`). A later version may
// have kinds of places that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Place {
    kind: u32,
    number: u32,
    name: &'static str,
}

impl Place {
    /// The host's memory.
    pub const HOST: Self = Self::new(Self::IS_HOST, 0, "");

    const IS_CUDA: u32 = 1;
    const IS_HOST: u32 = 2;
    const IS_NAMED: u32 = 3;

    const fn new(kind: u32, number: u32, name: &'static str) -> Self {
        Self { kind, number, name }
    }

    /// Returns the CUDA device with this ordinal.
    #[must_use]
    pub const fn cuda(ordinal: usize) -> Self {
        // No device has an ordinal this large, so greater ones are clamped.
        let largest = u32::MAX;
        let number = if ordinal < largest as usize {
            ordinal as u32
        } else {
            largest
        };
        Self::new(Self::IS_CUDA, number, "")
    }

    /// Returns a device of another API, such as `wgpu:0`.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        Self::new(Self::IS_NAMED, 0, name)
    }

    /// Returns the ordinal, if this is a CUDA device.
    #[must_use]
    pub fn cuda_ordinal(self) -> Option<usize> {
        (self.kind == Self::IS_CUDA).then_some(self.number as usize)
    }

    /// Returns the name, if this is a device of another API.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        (self.kind == Self::IS_NAMED).then_some(self.name)
    }
}

/// Runs `body`, and allows the resources that it creates on this thread, and on threads that it
/// starts, to stay for `reason`.
///
/// A check counts these resources as `allowed`, with their bytes, and does not fail because of
/// them. Resources that are freed later simply disappear from reports. If such calls are nested,
/// the innermost reason is reported.
///
/// A budget still counts these resources, because it limits how much may be live at once. A failed
/// free inside `body` is an error like any other. On a thread that belongs to no check, the
/// resources have no owner: they are the baseline of later checks, and no check reports them.
///
/// ```
/// let table = gpu_leak_hooks::allow("the table is shared by all models", || vec![0; 8]);
/// # drop(table);
/// ```
pub fn allow<R>(reason: &'static str, body: impl FnOnce() -> R) -> R {
    struct Ending(Option<(&'static Hooks, u64)>);

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

/// Hands over the resource at `address`: from now on, other code is responsible for freeing it, as
/// after `into_raw` or an export to another framework. A check in which the resource was created no
/// longer expects it to be freed, and reports in a note how much was handed over.
///
/// The address is the beginning of memory, on a device or in host memory, or the handle of a
/// stream, an event or another object. If an allocator's block begins at the start of its segment,
/// the call applies to the block. For virtual memory, it applies to the mapping that begins there
/// and its physical memory, and also to the address range if the range begins there. For a pool of
/// Vulkan, it also applies to the command buffers or descriptor sets in the pool. The call has no
/// effect for an unknown address, for a value that is the handle of two objects, and for an address
/// that a [`PlacedSource`] uses at two places.
///
/// ```
/// struct Buffer(u64);
///
/// impl Buffer {
///     fn into_raw(self) -> u64 {
///         gpu_leak_hooks::hand_over(self.0);
///         self.0
///     }
/// }
/// # assert_eq!(Buffer(7).into_raw(), 7);
/// ```
pub fn hand_over(address: u64) {
    if let Some(harness) = harness() {
        (harness.hand_over)(address);
    }
}

/// An allocator that reports the blocks that it hands out. They appear in reports as the layer
/// `allocator:NAME`.
///
/// An address identifies one live block, regardless of the block's place. If blocks at different
/// places can have the same address, use [`PlacedSource`].
// Every version of this crate has these fields in this order (see `interface`).
#[derive(Debug)]
#[repr(C)]
pub struct Source {
    /// The allocator's name.
    pub name: &'static str,
    /// Parts of the paths of the allocator's own source files (`my-pool/src/`). A report points at
    /// the first line outside these files, which is in the code that uses the allocator.
    pub own_sources: &'static [&'static str],
    /// The ID that the harness assigned to this source, cached so that the source need not be
    /// looked up each time; 0 until it is assigned.
    pub number: AtomicU32,
    /// Whether each place has its own address space.
    pub per_place: bool,
}

impl Source {
    /// Creates a source for the allocator called `name`, whose source files have `own_sources` in
    /// their paths.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        Self {
            name,
            own_sources,
            number: AtomicU32::new(0),
            per_place: false,
        }
    }

    /// Reports that `bytes` were allocated at `address`. Call this after the allocation.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        if let Some(harness) = harness() {
            (harness.allocated)(self, &place, address, bytes);
        }
    }

    /// Reports that `address` is freed. Call this before the allocator can hand out the address
    /// again.
    #[inline]
    pub fn freed(&self, address: u64) {
        if let Some(harness) = harness() {
            (harness.freed)(self, None, address);
        }
    }
}

/// The counterpart of [`Source`] for an allocator with one address space per device. The same
/// address may be in use on two devices, so a free has to specify the device.
///
/// ```
/// use gpu_leak_hooks::{Place, PlacedSource};
///
/// static HEAPS: PlacedSource = PlacedSource::new("my-heaps", &["my-heaps/src/"]);
///
/// // Offsets into each device's heap.
/// HEAPS.allocated(Place::named("npu:0"), 0x1000, 64);
/// HEAPS.allocated(Place::named("npu:1"), 0x1000, 64);
/// HEAPS.freed(Place::named("npu:0"), 0x1000);
/// HEAPS.freed(Place::named("npu:1"), 0x1000);
/// ```
#[derive(Debug)]
pub struct PlacedSource(Source);

impl PlacedSource {
    /// Creates a source for the allocator called `name`, whose source files have `own_sources` in
    /// their paths.
    #[must_use]
    pub const fn new(name: &'static str, own_sources: &'static [&'static str]) -> Self {
        let mut source = Source::new(name, own_sources);
        source.per_place = true;
        Self(source)
    }

    /// Reports that `bytes` were allocated at `address` of `place`. Call this after the allocation.
    #[inline]
    pub fn allocated(&self, place: Place, address: u64, bytes: u64) {
        self.0.allocated(place, address, bytes);
    }

    /// Reports that `address` of `place` is freed. Call this before the allocator can hand out the
    /// address again.
    #[inline]
    pub fn freed(&self, place: Place, address: u64) {
        if let Some(harness) = harness() {
            (harness.freed)(&self.0, Some(&place), address);
        }
    }

    /// Returns the underlying source, for the harness.
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

    static NOTED: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

    fn note(what: impl Into<String>, value: u64) {
        NOTED.lock().unwrap().push((what.into(), value));
    }

    fn shown(name: &str, place: Option<Place>) -> String {
        let place = place.map(|place| (place.cuda_ordinal(), place.name()));
        std::format!("{name} {place:?}")
    }

    #[test]
    fn nothing_is_reported_until_a_harness_is_installed() {
        static POOL: Source = Source::new("pool", &[]);
        static HEAPS: PlacedSource = PlacedSource::new("heaps", &[]);
        static HOOKS: Hooks = Hooks {
            begin_allow: |reason| {
                note(reason, 0);
                7
            },
            end_allow: |token| note("end", token),
            hand_over: |address| note("hand over", address),
            allocated: |source, place, address, _| note(shown(source.name, Some(*place)), address),
            freed: |_, place, address| note(shown("freed", place.copied()), address),
        };
        hand_over(1);
        assert_eq!(allow("early", || 3), 3);
        install(&HOOKS);
        POOL.allocated(Place::cuda(3), 5, 10);
        POOL.allocated(Place::HOST, 6, 10);
        POOL.freed(5);
        HEAPS.allocated(Place::named("npu:0"), 7, 10);
        HEAPS.freed(Place::named("npu:0"), 7);
        hand_over(2);
        let outcome = std::panic::catch_unwind(|| allow("a reason", || std::panic!("inside")));
        assert!(outcome.is_err());
        assert_eq!(
            *NOTED.lock().unwrap(),
            [
                ("pool Some((Some(3), None))", 5),
                ("pool Some((None, None))", 6),
                ("freed None", 5),
                ("heaps Some((None, Some(\"npu:0\")))", 7),
                ("freed Some((None, Some(\"npu:0\")))", 7),
                ("hand over", 2),
                ("a reason", 0),
                ("end", 7)
            ]
            .map(|(what, value)| (what.to_string(), value))
        );
    }
}
