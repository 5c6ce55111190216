//! The static description of a checked test, as the attribute emits it.

use std::process::ExitCode;

use crate::options::Options;

/// One annotated test.
#[derive(Debug)]
pub struct Case {
    /// The full path of the test, beginning with the crate: `train::optim::adam_frees_everything`.
    /// For a program's `main`, this is the name of the program.
    pub path: &'static str,
    /// The test's source location, and the names that cargo gives to its package and target.
    pub origin: Origin,
    /// The options of the test's attribute.
    pub options: Options,
    /// The test's `#[should_panic]`, which the attribute handles in place of libtest.
    pub should_panic: Option<ShouldPanic>,
    /// Whether the test has `#[ignore]`.
    pub ignored: bool,
    /// The test's body.
    pub body: fn() -> ExitCode,
}

impl Case {
    /// Creates a test without options.
    #[must_use]
    pub const fn new(path: &'static str, origin: Origin, body: fn() -> ExitCode) -> Self {
        Self {
            path,
            origin,
            options: Options::DEFAULT,
            should_panic: None,
            ignored: false,
            body,
        }
    }

    /// Whether this is a program's `main`, whose path is the program's name alone.
    #[must_use]
    pub fn is_program(&self) -> bool {
        !self.path.contains("::")
    }

    /// Returns the test's name as libtest prints it: the path without the crate.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path
            .split_once("::")
            .map_or(self.path, |(_, name)| name)
    }
}

/// The argument of `#[should_panic]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShouldPanic {
    /// A text that the panic message must contain; `None` accepts any panic.
    pub expected: Option<&'static str>,
    /// Whether libtest expects the panic as well, because another macro has already generated the
    /// test. The test's function must then panic if the test passes, and return if it fails.
    pub by_libtest: bool,
}

/// The origin of a test, filled in by [`origin!`](crate::__private::origin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `file!()` of the test.
    pub file: &'static str,
    /// `line!()` of the test.
    pub line: u32,
    /// `column!()` of the test.
    pub column: u32,
    /// `CARGO_PKG_NAME`; `None` without cargo.
    pub package: Option<&'static str>,
    /// `CARGO_MANIFEST_DIR`; `None` without cargo.
    pub manifest_dir: Option<&'static str>,
    /// `CARGO_CRATE_NAME`; `None` without cargo.
    pub crate_name: Option<&'static str>,
    /// `CARGO_BIN_NAME`; `None` outside a binary target.
    pub bin_name: Option<&'static str>,
    /// Whether the target is an integration test or benchmark (`CARGO_TARGET_TMPDIR` is set).
    pub integration: bool,
}
