//! How the command ends.

use std::process::{ExitCode, ExitStatus};

use crate::output::say;

/// The command's exit codes; part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nothing was found.
    Clean,
    /// Something was.
    Findings,
    /// The command line, a file it names or a configuration is wrong.
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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// The exit code of a program that was called; that of a shell for a signal.
pub(crate) fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// What a step came to, or why the command ends.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why the command ends before its time: one sentence, with the place and the remedy.
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

    /// Prints it, and gives its exit code.
    pub(crate) fn tell(self) -> ExitCode {
        say(format_args!("error: {}", self.what));
        self.exit.into()
    }
}
