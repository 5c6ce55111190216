//! Probes, which read the state of caching allocators.
//!
//! A caching allocator allocates whole segments from the driver and hands out parts of them. To the
//! driver, a segment is simply allocated. Only the allocator knows which parts are in use. With a
//! [`Probe`], the check judges these parts in the allocator's own layer, and treats the segments as
//! the allocator's reserved memory.

pub use crate::judge::Segment;
use crate::ledger::Place;

/// Reads the state of one allocator.
///
/// Register it with [`probe!`](crate::probe!). Its functions are called on the checking thread,
/// between runs of the test body. `Check`, `Scope` and functions such as
/// [`memory_allocated`](crate::memory_allocated) also call them on the test's own thread. The
/// probe's functions may take the allocator's locks, so a test must not hold such a lock when it
/// uses `Check`, `Scope` or one of those functions. The probe's functions must not allocate GPU
/// memory.
///
/// ```
/// use gpu_leak_check::Place;
/// use gpu_leak_check::probe::{Probe, Segment};
/// # mod my_pool {
/// #     pub fn used() -> u64 { 0 }
/// #     pub fn held() -> u64 { 0 }
/// #     pub fn segments() -> Vec<(u64, u64)> { Vec::new() }
/// #     pub fn trim() {}
/// # }
///
/// struct MyPool;
///
/// impl Probe for MyPool {
///     fn name(&self) -> &'static str {
///         "my-pool"
///     }
///
///     fn places(&self) -> Vec<Place> {
///         vec![Place::cuda(0)]
///     }
///
///     fn allocated(&self, _: Place) -> u64 {
///         my_pool::used()
///     }
///
///     fn reserved(&self, _: Place) -> u64 {
///         my_pool::held()
///     }
///
///     fn segments(&self, _: Place) -> Vec<Segment> {
///         let segments = my_pool::segments().into_iter();
///         segments.map(|(address, bytes)| Segment { address, bytes }).collect()
///     }
///
///     fn empty_cache(&self, _: Place) {
///         my_pool::trim();
///     }
/// }
///
/// gpu_leak_check::probe!(&MyPool);
/// # fn main() {}
/// ```
pub trait Probe: Sync {
    /// Returns the name of the allocator. If the allocator has a
    /// [`Source`](crate::observe::Source), the source must have the same name. The figures of
    /// several probes with the same name, such as those of an allocator's pools, are added.
    ///
    /// Some caching allocators are known by name: `cubecl`, `c10`, `cupy`, `rmm`, `cub`, `bfc`,
    /// `onnxruntime`, `ggml`. A check in which one of them keeps memory is inconclusive unless that
    /// allocator has a probe.
    fn name(&self) -> &'static str;

    /// Returns the places where the allocator holds memory at present.
    fn places(&self) -> Vec<Place>;

    /// Returns the allocated bytes at `place`, which are handed out and not yet freed.
    fn allocated(&self, place: Place) -> u64;

    /// Returns the reserved bytes at `place`, which the allocator holds from the layer below,
    /// whether they are handed out or cached.
    fn reserved(&self, place: Place) -> u64;

    /// Returns the address ranges that the allocator holds at `place` from the layer below. They
    /// count as the allocator's reserved memory and not as leaks of the driver's layer.
    ///
    /// Return an empty list if the allocator does not expose them. The segments of cubecl, c10, RMM
    /// and a few others are recognised by their functions, so a probe with one of those names does
    /// not need to return any.
    fn segments(&self, place: Place) -> Vec<Segment>;

    /// Returns unused cached memory at `place` to the layer below.
    fn empty_cache(&self, place: Place);
}

inventory::collect!(&'static dyn Probe);

/// Registers a [`Probe`] for the life of the program.
///
/// A registration in a library takes effect only if the program uses that library.
///
/// ```
/// # use gpu_leak_check::{Place, probe::{Probe, Segment}};
/// # struct Mine;
/// # impl Probe for Mine {
/// #     fn name(&self) -> &'static str { "mine" }
/// #     fn places(&self) -> Vec<Place> { Vec::new() }
/// #     fn allocated(&self, _: Place) -> u64 { 0 }
/// #     fn reserved(&self, _: Place) -> u64 { 0 }
/// #     fn segments(&self, _: Place) -> Vec<Segment> { Vec::new() }
/// #     fn empty_cache(&self, _: Place) {}
/// # }
/// static PROBE: Mine = Mine;
/// gpu_leak_check::probe!(&PROBE);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! probe {
    ($probe:expr) => {
        $crate::__private::submit! { $probe as &'static dyn $crate::probe::Probe }
    };
}

/// Returns the registered probes, ordered by name.
pub(crate) fn all() -> Vec<&'static dyn Probe> {
    let mut probes: Vec<_> = inventory::iter::<&dyn Probe>().copied().collect();
    probes.sort_by_key(|probe| probe.name());
    probes
}
