//! Turns a finished check into text for people and data for programs.
//!
//! [`check_report`] defines the data of a finished check, which is the only input of the renderers.
//! [`run_file`] reads the files that the processes of a run have written.

pub(crate) mod again;
pub mod check_report;
mod cpp_names;
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
mod peak;
mod places;
mod run_directory;
pub mod run_file;
mod screen;
mod sink;
mod sources;
mod style;
mod summary;
pub(crate) mod symbols;
mod table;
pub mod text;

pub use gpu_leak_core::report::Code;
pub use headline::headline;
pub use help::help;
pub use sources::Sources;
pub use style::Style;

// The command and the tests of this crate use these items.
#[doc(hidden)]
pub use self::{
    finding::{at_its_line, details},
    held_by::held_by,
    peak::{columns, peak_lines},
    run_directory::{NamedRun, SESSION, missing_file, run_file_name, run_files},
    sink::Sink,
    summary::Summary,
    symbols::site,
    table::{cells, device_title, whole_device},
};
#[doc(hidden)]
pub use gpu_leak_core::escape;

// The search for holders uses these functions to classify names.
#[cfg(feature = "holders")]
pub(crate) use self::owner::{is_cuda_function, is_cuda_library};
