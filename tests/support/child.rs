//! Runs one test of this program in a separate process, so that another test can examine its
//! outcome and its output. A test that must fail is `#[ignore]`d, and another test runs it.

use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Output};

use crate::gpu;

/// The prefixes of variables that would make the outcome of a child depend on where its parent
/// runs.
const AMBIENT: [&str; 6] = [
    "CI",
    "GPU_LEAK_CHECK",
    "NEXTEST",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
];

/// The outcome and the output of a child.
#[derive(Debug)]
pub struct Child {
    /// The exit status, which is libtest's: success if the test passed.
    pub status: ExitStatus,
    /// The complete standard output: libtest's lines, and the test's own.
    pub stdout: String,
    /// The complete standard error: reports, panics, logs.
    pub stderr: String,
}

impl From<Output> for Child {
    fn from(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Removes variables from `command` that would make its outcome depend on where its parent runs.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if AMBIENT
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
}

/// Runs the test with this name, ignored or not. The name is the one libtest uses: the path without
/// the crate.
///
/// # Panics
///
/// Panics if there is no such test.
#[must_use]
pub fn run(test: &str) -> Child {
    Run::of(test).run()
}

/// A child that has not been started yet.
#[derive(Debug)]
pub struct Run {
    test: String,
    threads: u32,
    command: Command,
}

impl Run {
    /// Prepares the test with this name in a clean environment, without the variables that control
    /// checks, continuous integration, backtraces or logs.
    ///
    /// # Panics
    ///
    /// Panics if the path of this program is unknown.
    #[must_use]
    pub fn of(test: &str) -> Self {
        Self::with(
            test,
            &["--exact", test, "--include-ignored", "--nocapture"],
            1,
        )
    }

    /// Prepares every ignored test of this module, up to `threads` at once, in the same clean
    /// environment.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`Self::of`].
    #[must_use]
    pub fn of_all(module: &str, threads: u32) -> Self {
        Self::with(
            module,
            &[&format!("{module}::"), "--ignored", "--nocapture"],
            threads,
        )
    }

    fn with(test: &str, arguments: &[&str], threads: u32) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(arguments);
        clean(&mut command);
        // On a busy machine, the default time would not always suffice. A real driver has so much
        // memory that the search would read its maximum for every leak.
        if !gpu::is_present() {
            command.env("GPU_LEAK_CHECK_HELD_BY", "600s");
        }
        Self {
            test: test.to_owned(),
            threads,
            command,
        }
    }

    /// Lets libtest run several tests at once, so that no check can assume that it runs alone.
    #[must_use]
    pub fn beside_others(mut self) -> Self {
        self.threads = 2;
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds an argument for libtest.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Runs the test and waits until it ends.
    ///
    /// # Panics
    ///
    /// Panics if there is no such test, because a child that runs nothing would always pass.
    #[must_use]
    pub fn run(mut self) -> Child {
        let threads = format!("--test-threads={}", self.threads);
        let output = self.command.arg(threads).output().expect("a child process");
        let child = Child::from(output);
        assert!(
            !child.stdout.contains("running 0 tests"),
            "there is no test `{}`",
            self.test
        );
        child
    }
}
