//! Planted leaks, and the report that a check must produce for each.
//!
//! Each leak is a typical mistake with tensors, in typical code. It leaks the same amount at every
//! call, so that a second run confirms it. The line that allocates is marked `// leak: MARK`.

mod batch_kept_by_loader;
mod closure_cycle;
mod early_return;
mod forgotten_handle;
mod graph_output;
mod growing_static;
mod kept_gradient;
mod leak;
mod loss_history;
mod orphan_stream;
mod pinned_host_buffer;
mod pinned_segment;
mod retained_graph;

pub use leak::{Layer, Planted, Site};

/// Every planted leak.
pub const CATALOGUE: &[Planted] = &[
    forgotten_handle::PLANTED,
    early_return::PLANTED,
    closure_cycle::PLANTED,
    growing_static::PLANTED,
    kept_gradient::PLANTED,
    loss_history::PLANTED,
    retained_graph::PLANTED,
    graph_output::PLANTED,
    batch_kept_by_loader::PLANTED,
    pinned_segment::PLANTED,
    pinned_host_buffer::PLANTED,
    orphan_stream::PLANTED,
];

impl Planted {
    /// Returns the leak with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|planted| planted.name == name)
    }
}
