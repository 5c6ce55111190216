//! The names that an expansion of the attribute may use. They are not covered by SemVer, because
//! the attribute and this library are released together.

use std::process::Termination;

pub use crate::case::{Case, Origin, ShouldPanic};
#[cfg(feature = "main")]
pub use crate::check::main;
pub use crate::check::{run_program, run_test as run};
pub use crate::ledger::Kind;
pub use crate::options::{Allow, Expect, OnLeak, Options, UncheckedIf};
pub use crate::origin;
pub use crate::registry::Warmup;
pub use crate::{path, program};
pub use inventory::submit;
// With these names, an expansion does not pick up a user's own items that have the same names.
pub use std::option::Option::{None, Some};
pub use std::process::ExitCode;
pub use std::time::Duration;

/// Converts a test's return value into the form that libtest uses. This runs on the thread that
/// produced the value, because an error need not be [`Send`].
pub fn finish<T: Termination>(returned: T) -> ExitCode {
    returned.report()
}

/// Returns the [`Origin`] of the place where it is invoked.
#[doc(hidden)]
#[macro_export]
macro_rules! origin {
    () => {
        $crate::origin!(::std::line!(), ::std::column!())
    };
    ($line:expr, $column:expr) => {
        $crate::__private::Origin {
            file: ::std::file!(),
            line: $line,
            column: $column,
            package: ::std::option_env!("CARGO_PKG_NAME"),
            manifest_dir: ::std::option_env!("CARGO_MANIFEST_DIR"),
            crate_name: ::std::option_env!("CARGO_CRATE_NAME"),
            bin_name: ::std::option_env!("CARGO_BIN_NAME"),
            integration: ::std::option_env!("CARGO_TARGET_TMPDIR").is_some(),
        }
    };
}

/// Returns the full path of the test with this name in the module where it is invoked.
#[doc(hidden)]
#[macro_export]
macro_rules! path {
    ($name:literal) => {
        ::std::concat!(::std::module_path!(), "::", $name)
    };
}

/// Returns the name of the program in which it is invoked.
#[doc(hidden)]
#[macro_export]
macro_rules! program {
    () => {
        $crate::__private::program_name(::std::option_env!("CARGO_BIN_NAME"), ::std::module_path!())
    };
}

/// Returns the name of the binary or, for tests and benchmarks without libtest, the name of the
/// crate.
pub const fn program_name(binary: Option<&'static str>, root: &'static str) -> &'static str {
    match binary {
        Some(name) => name,
        None => root,
    }
}
