//! The reports of the harness: its events as facts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gpu_leak_check::Place;
use gpu_leak_check::ledger::event::{Creation, Event, Key, Space, Ticket};
use gpu_leak_check::ledger::{Kind, Layer};

use crate::fact::{Fact, Where};

/// The bit of a ledger key that marks the number of an object in its context.
const IN_CONTEXT: u64 = 1 << 63;

/// The releases that have begun.
static BEGUN: Mutex<Option<HashMap<Ticket, (Space, u64)>>> = Mutex::new(None);

/// Returns the fact that an event stands for. `answer` is the ledger's answer to the event.
pub(crate) fn fact(event: &Event, answer: Option<Ticket>) -> Option<Fact> {
    Some(match *event {
        // The event is about a node of a graph, which CUPTI's side of the comparison omits.
        Event::GraphAllocates { made, .. } if made.kind == Kind::Graph => return None,
        Event::Created(made) | Event::GraphAllocates { made, .. }
            if made.layer == Layer::DRIVER =>
        {
            made_by(&made)
        }
        Event::CreationFailed {
            kind, bytes, error, ..
        } => Fact::Made {
            kind,
            value: 0,
            bytes: Some(bytes),
            place: Where::Unsaid,
            error,
        },
        Event::FreeBegan { key, .. } | Event::ReleaseBegan { key, .. } => {
            return began(answer?, key.space, value(key));
        }
        Event::UnmapBegan { address, .. } => return began(answer?, Space::Mapping, address),
        Event::FreeEnded { ticket, error, .. } => return ended(ticket, error),
        Event::FreeCaptured { ticket } => return ended(ticket, 0),
        Event::PrimaryRetained { place, .. } => Fact::Primary {
            device: place.cuda_ordinal()? as u32,
            released: false,
        },
        Event::PrimaryReleased { place, .. } => Fact::Primary {
            device: place.cuda_ordinal()? as u32,
            released: true,
        },
        Event::Mapped {
            address,
            bytes,
            handle,
        } => Fact::Mapped {
            address,
            bytes,
            handle,
        },
        Event::HandleRetained { handle, address } => Fact::Handle {
            value: handle,
            address,
        },
        _ => return None,
    })
}

fn made_by(made: &Creation) -> Fact {
    Fact::Made {
        kind: made.kind,
        value: value(made.key),
        bytes: Some(made.bytes),
        place: match made.place {
            Place::HOST => Where::Host,
            place => place
                .cuda_ordinal()
                .map_or(Where::Unsaid, |device| Where::Device(device as u32)),
        },
        error: 0,
    }
}

/// Returns the address or handle in the form in which the driver gives it.
fn value(key: Key) -> u64 {
    let is_numbered = matches!(key.space, Space::Handle(Kind::Texture | Kind::Surface));
    if is_numbered && key.value() & IN_CONTEXT != 0 {
        u64::from(key.value() as u32)
    } else {
        key.value()
    }
}

fn began(ticket: Ticket, space: Space, value: u64) -> Option<Fact> {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    begun.get_or_insert_default().insert(ticket, (space, value));
    None
}

fn ended(ticket: Ticket, error: u32) -> Option<Fact> {
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    let (space, value) = begun.as_mut()?.remove(&ticket)?;
    Some(Fact::Freed {
        space,
        value,
        error,
    })
}
