//! How the command ends.

use std::fmt::Display;
use std::process::{ExitCode, ExitStatus};

use crate::output::say;

/// The command's exit codes, which are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// There are no findings.
    Clean,
    /// There are findings.
    Findings,
    /// The command line, a file that it names or the configuration is wrong.
    Usage,
    /// There is nothing to judge.
    Unmeasured,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::Unmeasured => 3,
        }
    }
}

/// Returns the exit code of a child process. For a process that a signal ended, it is 128 plus the
/// signal's number, as in a shell.
pub(crate) fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// The result of a step, or the error that ends the command.
pub(crate) type ExitResult<T> = Result<T, Failure>;

/// An error that ends the command: one sentence with the place and the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
}

impl Failure {
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            what: what.into(),
        }
    }

    pub(crate) fn unmeasured(what: impl Into<String>) -> Self {
        Self {
            exit: Exit::Unmeasured,
            what: what.into(),
        }
    }

    /// Creates the error for a report that cannot be written in the format `what`. The error
    /// contains the cause, for a bug report.
    pub(crate) fn unwritten(what: &str, why: impl Display) -> Self {
        Self::usage(format!("cannot write {what}: {why}"))
    }

    /// Prints the error and returns its exit code.
    pub(crate) fn report(self) -> ExitCode {
        say(format_args!("error: {}", self.what));
        self.exit.code().into()
    }
}
