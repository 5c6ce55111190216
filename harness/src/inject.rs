//! What the library for unmodified programs needs of the inside, and what the command tells it.
//! Outside SemVer: the command, the library in it and this crate are released together.

use std::env;

use serde::{Deserialize, Serialize};

pub use crate::api::cuda::before_initialisation;
pub use crate::check::{Attached, Cause, attach};
use crate::ledger;
use crate::ledger::event::{Event, Ticket};

/// Has `hear` be told of every event that the ledger takes in from now on, with its answer. It must not
/// call the harness, nor wait for a thread that does. The first one counts.
pub fn on_every_event(hear: impl Fn(&Event, Option<Ticket>) + Send + Sync + 'static) {
    ledger::live().listen(Box::new(move |_, event, answer| hear(event, answer)));
}

/// How the command speaks to the library in a program.
pub const VARIABLE: &str = "GPU_LEAK_INJECT";

/// What the command tells the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// What reports call the process; its command line where there is none.
    pub name: Option<String>,
    /// The command that does the same again.
    pub again: Option<String>,
    /// Milliseconds from one snapshot to the next.
    pub every_ms: Option<u64>,
    /// The signal that asks for a snapshot.
    pub signal: Option<i32>,
    /// Only a process that this one has started is watched.
    pub child_of: Option<u32>,
}

impl Settings {
    /// What the environment says; none where the command did not start this process, or does not
    /// mean it.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let settings: Self = serde_json::from_str(&env::var(VARIABLE).ok()?).ok()?;
        let is_meant = settings.child_of.is_none_or(is_parent);
        is_meant.then_some(settings)
    }

    /// The value of [`VARIABLE`].
    ///
    /// # Panics
    ///
    /// Never: numbers and text have a form in JSON.
    #[must_use]
    pub fn to_value(&self) -> String {
        serde_json::to_string(self).expect("numbers and text have a form in JSON")
    }
}

/// Whether a library for unmodified programs is at work in this process, or will be as soon as
/// its driver is initialised.
pub(crate) fn is_here() -> bool {
    Settings::of_this_process().is_some()
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
        let read: Settings = serde_json::from_str(&settings.to_value()).expect("settings");
        assert_eq!(read, settings);
        let later = r#"{"every_ms": 1, "of_a_later_release": true}"#;
        let read: Settings = serde_json::from_str(later).expect("settings");
        assert_eq!(read.every_ms, Some(1));
    }
}
