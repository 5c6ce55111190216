//! From a finished check to what people and programs read.
//!
//! [`model`] is the only thing that is rendered; [`site`] turns raw return addresses into its
//! stacks. The renderers write into any [`fmt::Write`](std::fmt::Write).

pub(crate) mod again;
pub(crate) mod allocators;
mod debug_info;
mod excerpt;
mod finding;
mod function;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod headline;
mod held_by;
mod help;
mod holder;
mod interleave;
pub mod json;
mod libraries;
pub mod model;
mod owner;
mod rendering;
mod run_folder;
mod sink;
mod site;
mod style;
mod summary;
pub(crate) mod symbols;
mod table;
pub mod text;
pub mod workspace;

pub use excerpt::Sources;
pub use finding::what;
pub use gpu_leak_core::escape;
pub use gpu_leak_core::report::Code;
pub use headline::headline;
pub use held_by::held_by;
pub use help::help;
pub(crate) use libraries::keeps_what_it_takes;
pub use sink::Sink;
pub use site::site;
pub(crate) use site::{is_cudas_own, is_cudas_own_frames, renewed_fingerprint, site_of};
pub use style::Style;
pub use summary::Summary;
pub use table::{device_title, whole_device};

// What the search for holders is told about names.
#[cfg(feature = "holders")]
pub(crate) use self::{
    libraries::is_known_library,
    owner::{is_cuda_function, is_cuda_library},
    site::as_written,
};
