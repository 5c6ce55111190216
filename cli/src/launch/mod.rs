//! Starts programs, forwards signals to them, and preloads the library that watches them.

#[cfg(unix)]
mod empty_library;
#[cfg(unix)]
mod forwarding;
#[cfg(unix)]
mod library;

#[cfg(unix)]
pub(crate) use self::forwarding::expect_children;

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};

use gpu_leak_check::__inject::{Settings, VARIABLE};
use gpu_leak_check::report::escape;

use crate::exit::{ExitResult, Failure};

/// The variable that tells the dynamic loader which libraries to preload.
const PRELOAD: &str = "LD_PRELOAD";

/// The library cannot be preloaded on other systems.
#[cfg(not(unix))]
mod library {
    use std::path::PathBuf;

    use crate::exit::ExitResult;

    pub(super) fn path() -> ExitResult<PathBuf> {
        Err(super::not_supported())
    }
}

/// Returns the error for a system on which the library cannot be preloaded.
fn not_supported() -> Failure {
    Failure::unmeasured("unmodified programs can be watched only on Linux with glibc")
}

/// Returns the command that starts `program` with the library preloaded. `program` includes the
/// arguments.
pub(crate) fn watched(program: &[OsString], settings: &Settings) -> ExitResult<Command> {
    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .env(PRELOAD, preload_list()?)
        .env(VARIABLE, settings.to_value());
    Ok(command)
}

/// Returns the libraries to preload: the user's own, which may have to come first, and ours.
fn preload_list() -> ExitResult<OsString> {
    let library = library::path()?;
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::usage(format!(
            "cannot preload {} because its path contains a space or a colon: set XDG_CACHE_HOME to \
             a directory whose path contains neither",
            escape::name(&library.to_string_lossy())
        )));
    }
    let mut all = env::var_os(PRELOAD).unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(library);
    Ok(all)
}

/// Starts `command`, forwards the signals that this process gets, and waits for it to end.
/// `not_started` is the message for a program that cannot be started.
pub(crate) fn run(
    mut command: Command,
    not_started: impl FnOnce(&io::Error) -> String,
) -> ExitResult<ExitStatus> {
    // Handlers are installed before the program starts, so that no signal is lost in between.
    #[cfg(unix)]
    let signals = forwarding::Signals::catch()?;
    let started = command.spawn();
    let child = started.map_err(|why| Failure::usage(not_started(&why)))?;
    #[cfg(unix)]
    let status = signals.forward_to(child);
    #[cfg(not(unix))]
    let status = { child }.wait();
    status.map_err(|why| Failure::usage(format!("cannot wait for the program: {why}")))
}
