//! How the command ends.

use std::fmt::Display;
use std::process::{ExitCode, ExitStatus};

use crate::output::say;

/// The command's exit codes, which are part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// There are no findings.
    Clean = 0,
    /// There are findings.
    Findings = 1,
    /// The command line, a file that it names or the configuration is wrong.
    Usage = 2,
    /// There is nothing to judge.
    Unmeasured = 3,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        self as u8
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

/// An error that ends the command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// One sentence, with the place and the remedy.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
        }
    }

    pub(crate) fn unmeasured(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Unmeasured,
            message: message.into(),
        }
    }

    pub(crate) fn cannot_write(output: impl Display, why: impl Display) -> Self {
        Self::usage(format!("cannot write {output}: {why}"))
    }

    /// Prints the error and returns its exit code.
    pub(crate) fn report(self) -> ExitCode {
        say(format_args!("error: {}", self.message));
        self.exit.code().into()
    }
}
