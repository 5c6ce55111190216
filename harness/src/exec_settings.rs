//! The settings that the command passes to its library in an unmodified program.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The environment variable through which the command passes settings to the library in a program.
pub const VARIABLE: &str = "GPU_LEAK_INJECT";

/// The settings that the command passes to the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The name of the process in reports. Without it, reports use the command line.
    pub name: Option<String>,
    /// The command that runs the process again.
    pub again: Option<String>,
    /// The directory in which the command was called. The program may leave it before it uses the
    /// driver.
    pub directory: Option<String>,
    /// The time from one snapshot to the next, in milliseconds.
    pub every_ms: Option<u64>,
    /// The signal that requests a snapshot.
    pub signal: Option<i32>,
    /// If set, only a child of the process with this ID is watched.
    pub child_of: Option<u32>,
    /// Whether the process is a test. If so, the run's policy decides whether it fails, and
    /// resources that a static keeps count as first use.
    pub is_test: bool,
    /// The ID of the process that starts a program with its own copy of this library. That copy
    /// watches the program, because it receives the reports of the allocators. The preloaded copy
    /// watches the program's child processes.
    pub contained_in_child_of: Option<u32>,
}

impl Settings {
    /// Returns the settings for the preloaded library; `None` if that library should not watch this
    /// process.
    pub fn for_preloaded_library() -> Option<Self> {
        let settings = Self::read()?;
        let is_meant = settings.child_of.is_none_or(is_parent);
        (is_meant && !settings.is_contained()).then_some(settings)
    }

    /// Returns the settings for the copy of this library that the program itself contains; `None`
    /// if that copy should not watch this process.
    pub(crate) fn for_contained_library() -> Option<Self> {
        Self::read().filter(Self::is_contained)
    }

    fn read() -> Option<Self> {
        serde_json::from_str(variable(VARIABLE)?.to_str()?).ok()
    }

    fn is_contained(&self) -> bool {
        self.contained_in_child_of.is_some_and(is_parent)
    }

    /// Returns the value for [`VARIABLE`].
    ///
    /// # Panics
    ///
    /// This never panics, because numbers and text can always be written as JSON.
    pub fn to_value(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings can be written as JSON")
    }
}

/// Returns the environment variables of the run. In a process that the command watches, these are
/// the variables that the process was started with, because the program may have removed some of
/// them before its first check.
pub(crate) fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    static FIRST: OnceLock<Vec<(OsString, OsString)>> = OnceLock::new();
    let first = FIRST.get_or_init(first_variables);
    let current = first.is_empty().then(env::vars_os);
    current.into_iter().flatten().chain(first.iter().cloned())
}

/// Returns the value of a variable among [`variables`].
pub(crate) fn variable(name: &str) -> Option<OsString> {
    let mut variables = variables();
    variables.find_map(|(known, value)| (known == name).then_some(value))
}

/// Returns the value of a variable among [`variables`]; `None` if the value is not valid UTF-8.
pub(crate) fn text_variable(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

/// Returns the variables that this process was started with, if the command watches it.
#[cfg(unix)]
fn first_variables() -> Vec<(OsString, OsString)> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    // An error means that `/proc` is not mounted, or that this process may not read its own
    // `/proc/self/environ`.
    let started = std::fs::read("/proc/self/environ").unwrap_or_default();
    let variables = started.split(|byte| *byte == 0).filter_map(|variable| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((text(&variable[..at]), text(&variable[at + 1..])))
    });
    let variables: Vec<_> = variables.collect();
    let is_watched = variables.iter().any(|(name, _)| name == VARIABLE);
    if is_watched { variables } else { Vec::new() }
}

#[cfg(not(unix))]
fn first_variables() -> Vec<(OsString, OsString)> {
    Vec::new()
}

/// Returns the directory in which the command that watches this process was called. Without such a
/// command, this is the working directory.
pub(crate) fn starting_directory() -> Option<PathBuf> {
    let of_command = Settings::read().and_then(|settings| settings.directory);
    of_command
        .map(PathBuf::from)
        .or_else(|| env::current_dir().ok())
}

/// Whether the library for unmodified programs is active in this process, or will be active once
/// the driver is initialised.
pub(crate) fn is_preloaded() -> bool {
    Settings::for_preloaded_library().is_some()
}

#[cfg(unix)]
fn is_parent(process: u32) -> bool {
    std::os::unix::process::parent_id() == process
}

#[cfg(not(unix))]
fn is_parent(_process: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::Settings;

    #[test]
    fn settings_are_read_as_they_were_written_and_unknown_ones_are_passed_over() {
        let settings = Settings {
            name: Some("train".to_owned()),
            every_ms: Some(500),
            signal: Some(10),
            ..Settings::default()
        };
        let read: Settings =
            serde_json::from_str(&settings.to_value()).expect("the settings are valid");
        assert_eq!(read, settings);
        let later = r#"{"every_ms": 1, "of_a_later_release": true}"#;
        let read: Settings = serde_json::from_str(later).expect("the settings are valid");
        assert_eq!(read.every_ms, Some(1));
    }
}
