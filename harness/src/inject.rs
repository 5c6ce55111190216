//! The interface for the library that watches unmodified programs. It is not covered by SemVer,
//! because the command, that library and this crate are released together.

pub use crate::api::before_initialisation;
pub use crate::check::{Attached, Cause, attach};
pub use crate::exec_settings::{Settings, VARIABLE};
use crate::ledger;
use crate::ledger::event::{Event, Ticket};

/// Calls `hear` for every event that the ledger applies from now on, with the ledger's answer.
/// `hear` must not call the harness or wait for a thread that does. Only the first registration
/// takes effect.
pub fn on_every_event(hear: impl Fn(&Event, Option<Ticket>) + Send + Sync + 'static) {
    ledger::live().listen(Box::new(move |_, event, answer| hear(event, answer)));
}
