//! What a check could not see. Blind is never clean.

use std::sync::OnceLock;

use crate::capture::cupti::{self, Unavailable};
use crate::code::Code;
use crate::device::contexts;
use crate::judge::Untraced;
use crate::ledger;
use crate::ledger::event::SourceLoss;
use crate::report::model::Reason;

/// Whether this machine has no working driver.
pub(crate) fn no_gpu() -> bool {
    matches!(cupti::start(), Err(Unavailable::NoDriver { .. }))
}

/// A wrong setting that no driver is there to stumble over; where there is one, it is the reason
/// itself.
pub(crate) fn misled() -> Option<String> {
    static NOTE: OnceLock<Option<String>> = OnceLock::new();
    let note = NOTE.get_or_init(|| {
        // Looking for CUPTI takes a millisecond.
        let bad = no_gpu().then(cupti::bad_override)??;
        Some(format!("{}; {}", bad.what(), bad.remedy()))
    });
    note.clone()
}

/// What the check that just ran could not see; `saw_events` says whether any source reported
/// anything while it ran.
pub(crate) fn untraced(saw_events: bool) -> Option<Untraced> {
    match cupti::start() {
        Ok(tracer) => {
            let lost = ledger::live().lost().or_else(|| tracer.heartbeat().err());
            lost.map(|why| Untraced {
                lost: true,
                reason: lost_reason(why),
                driver_in_use: true,
            })
        }
        Err(unavailable) => {
            let no_driver = matches!(unavailable, Unavailable::NoDriver { .. });
            let driver_in_use = !no_driver && contexts::driver_in_use();
            if saw_events && !driver_in_use {
                return None;
            }
            Some(Untraced {
                lost: false,
                reason: reason(unavailable),
                driver_in_use,
            })
        }
    }
}

/// Why there is no tracer, as a report has it.
pub(crate) fn reason(unavailable: &Unavailable) -> Reason {
    Reason::new(unavailable.code(), unavailable.what(), unavailable.remedy())
}

/// Nothing is judged, because the run's settings say so.
pub(crate) fn switched_off() -> Untraced {
    Untraced {
        lost: false,
        reason: Reason::new(Code::Off, "checks are switched off", "unset GPU_LEAK_CHECK"),
        driver_in_use: false,
    }
}

/// Why what follows the loss of the tracer says nothing.
fn lost_reason(why: SourceLoss) -> Reason {
    let what = match why {
        SourceLoss::CuptiFatal => "CUPTI met a fatal error and took its tracing down",
        SourceLoss::SubscriptionGone => {
            "the CUPTI subscription is gone: another tool in the process took it down"
        }
    };
    Reason::new(
        Code::TracerLost,
        what,
        "run this test without a profiler in its process, or in a process of its own",
    )
}
