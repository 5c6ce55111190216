//! Reading an allocator that the driver's ledger cannot see into.
//!
//! A caching allocator takes whole segments from the driver and hands out pieces of them. To the
//! driver a segment is simply allocated; only the allocator knows which pieces are in use. A
//! [`Probe`] tells: the check then judges the pieces in the allocator's own layer, and the
//! segments as its reserve.

pub use crate::judge::Segment;
use crate::ledger::Place;

/// Code that reads one allocator.
///
/// Register it with [`probe!`](crate::probe!). Its functions are called between the runs of test
/// bodies, from the thread that checks, and may take the allocator's locks; they must not
/// allocate GPU memory.
pub trait Probe: Sync {
    /// The allocator's name, the same as its [`Source`](crate::observe::Source)'s if it has one.
    ///
    /// Some caching allocators are known to keep memory, and a check in which they do is
    /// inconclusive until they have a probe. By that they are known: `cubecl`, `c10`, `rmm`,
    /// `bfc`, `onnxruntime`, `ggml`.
    fn name(&self) -> &'static str;

    /// Where it holds anything at present.
    fn places(&self) -> Vec<Place>;

    /// The bytes it has handed out at `place` and not got back.
    fn allocated(&self, place: Place) -> u64;

    /// The bytes it holds at `place` from the layer below, handed out or cached.
    fn reserved(&self, place: Place) -> u64;

    /// The ranges it holds at `place` from the layer below. They are its reserve, and no leaks of
    /// the driver's layer.
    ///
    /// None, where the allocator tells nobody. What cubecl, c10, RMM and a few more take is known by
    /// their functions, so a probe called by that name needs none.
    fn segments(&self, place: Place) -> Vec<Segment>;

    /// Gives back to the layer below what is cached at `place` and in no use.
    fn empty_cache(&self, place: Place);
}

/// A probe that registered itself.
#[doc(hidden)]
pub struct RegisteredProbe(pub &'static dyn Probe);

impl std::fmt::Debug for RegisteredProbe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("RegisteredProbe")
            .field(&self.0.name())
            .finish()
    }
}

inventory::collect!(RegisteredProbe);

/// Registers a [`Probe`] that lives as long as the program.
///
/// A registration in a library counts only where the program mentions that library.
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
        $crate::__private::inventory::submit! { $crate::__private::RegisteredProbe($probe) }
    };
}

/// The registered probes, by name.
pub(crate) fn all() -> Vec<&'static dyn Probe> {
    let mut probes: Vec<_> = inventory::iter::<RegisteredProbe>()
        .map(|entry| entry.0)
        .collect();
    probes.sort_by_key(|probe| probe.name());
    probes
}
