//! The static description of one checked test: facts that the attribute emits.

use std::process::ExitCode;

use crate::options::Options;

/// One annotated test.
#[derive(Debug)]
pub struct Case {
    /// Its full path, crate first: `train::optim::adam_frees_everything`. For a program's `main`,
    /// the program's name.
    pub path: &'static str,
    /// Where it stands and how cargo names what it is in.
    pub origin: Origin,
    /// What the attribute says of it.
    pub options: Options,
    /// `#[should_panic]`, taken over from libtest.
    pub should_panic: Option<ShouldPanic>,
    /// `#[ignore]`.
    pub ignored: bool,
    /// The test itself.
    pub body: fn() -> ExitCode,
}

impl Case {
    /// A test of which its attribute says nothing else.
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

    /// Whether it is a program's `main`: its path is the program's name alone.
    #[must_use]
    pub fn is_program(&self) -> bool {
        !self.path.contains("::")
    }

    /// The test's name as libtest prints it: the path without the crate.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path
            .split_once("::")
            .map_or(self.path, |(_, name)| name)
    }
}

/// What `#[should_panic]` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShouldPanic {
    /// A part of the message; none for any panic.
    pub expected: Option<&'static str>,
}

/// Where a test comes from. Filled in by [`origin!`](crate::__private::origin).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `file!()` of the test.
    pub file: &'static str,
    /// `line!()` of the test.
    pub line: u32,
    /// `column!()` of the test.
    pub column: u32,
    /// `CARGO_PKG_NAME`; none without cargo.
    pub package: Option<&'static str>,
    /// `CARGO_MANIFEST_DIR`; none without cargo.
    pub manifest_dir: Option<&'static str>,
    /// `CARGO_CRATE_NAME`; none without cargo.
    pub crate_name: Option<&'static str>,
    /// `CARGO_BIN_NAME`, of a test inside a binary target.
    pub bin_name: Option<&'static str>,
    /// Whether the target is an integration test or benchmark (`CARGO_TARGET_TMPDIR` is set).
    pub integration: bool,
}
