//! Turns a finished check into what people and programs read.
//!
//! [`check_report`] is the only input of the renderers; [`site`](fn@site) turns raw return
//! addresses into its backtraces. The renderers write into any [`fmt::Write`](std::fmt::Write).

pub(crate) mod again;
pub mod check_report;
mod debug_info;
mod environment;
mod excerpt;
mod finding;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod headline;
mod held_by;
mod help;
mod interleave;
mod owner;
mod run_directory;
pub mod run_file;
mod sink;
mod style;
mod summary;
pub(crate) mod symbols;
mod table;
pub mod text;
pub mod workspace;

pub use excerpt::Sources;
pub use finding::{at_its_line, details};
pub use gpu_leak_core::escape;
pub use gpu_leak_core::report::Code;
pub use headline::headline;
pub use held_by::held_by;
pub use help::help;
pub use run_directory::begin_named;
pub use sink::Sink;
pub use style::Style;
pub use summary::Summary;
pub use symbols::site;
pub use table::{device_title, whole_device};

// The search for holders classifies names with these.
#[cfg(feature = "holders")]
pub(crate) use self::owner::{is_cuda_function, is_cuda_library};
