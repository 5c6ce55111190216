//! Calls that free or destroy a resource.

use super::Intercepted;
use crate::api::cuda::call::{Frees, Share, key};
use crate::api::cuda::contexts::{Context, PrimaryTurn};
use crate::api::cuda::listener::Listener;
use crate::api::cuda::numbered;
use crate::capture::{free_ended, freeing_caller};
use crate::device::exclusion::{
    CONTEXT_EXCLUSION, Destruction, Exclusion, POOL_EXCLUSION, STREAM_EXCLUSION,
};
use crate::ledger::event::{ContextEnd, CuResult, Event, Key, Space, Ticket};
use crate::ledger::{Kind, Place};

/// The data that the end of a free needs from its beginning.
#[derive(Default)]
pub(in crate::api::cuda) struct BegunFree {
    /// The ticket of the free that was reported to the ledger.
    ticket: Option<Ticket>,
    /// The graph into which the call is captured.
    captured: Option<Key>,
    /// The context that the call is about to end.
    ending: Option<Context>,
    // These fields are dropped in this order, after everything has been reported.
    _destruction: Option<Destruction>,
    _turn: Option<PrimaryTurn>,
}

impl Intercepted<BegunFree> for Frees {
    unsafe fn began(&self, listener: &Listener<'_>, begun: &mut BegunFree) {
        let Some(key) = key(self.space, self.value) else {
            return;
        };
        // SAFETY: the caller upholds the contract.
        begun.captured = unsafe { listener.captured(self.stream) };
        // A primary context has no record, and its uses are not counted.
        let primary = listener.place_of_primary(self);
        begun.ticket = match self.share {
            Share::Whole => {
                let key = numbered::freed(listener.ledger, key, || listener.current().owner);
                let caller = freeing_caller();
                listener.report(Event::FreeBegan { key, caller })
            }
            Share::References(..) if primary.is_some() => {
                let device = primary.and_then(|place| place.cuda_ordinal());
                begun._turn = device.and_then(|device| PrimaryTurn::at(device as i32));
                None
            }
            Share::References(count, graph) => listener.report(Event::ReleaseBegan {
                key,
                count,
                graph,
                caller: freeing_caller(),
            }),
            Share::Maps(bytes) => listener.report(Event::UnmapBegan {
                address: key.value(),
                bytes,
                caller: freeing_caller(),
            }),
        };
        // This happens after the record has left the ledger, so that a later reading does not find
        // the record.
        begun._destruction = exclusion(self.space).and_then(Exclusion::destroy);
        // Another context may get the handle before the call returns, so the one that ends is
        // determined now. A context has no record any more if the call releases its last use.
        let is_context = self.space == Space::Handle(Kind::Context);
        if is_context && primary.is_none() && listener.ledger.get(&key).is_none() {
            begun.ending = listener.contexts.end(|it| it.handle == key.value());
        }
    }

    unsafe fn ended(&self, listener: &Listener<'_>, begun: &BegunFree, error: CuResult) {
        if let Some(ticket) = begun.ticket {
            let captured = begun.captured.filter(|_| error == 0);
            listener.report(match captured {
                Some(_) => Event::FreeCaptured { ticket },
                None => free_ended(ticket, error),
            });
            if let Some(graph) = captured {
                let address = self.value;
                listener.report(Event::GraphFrees { graph, address });
            }
        }
        match self.space {
            Space::Handle(Kind::Context) => listener.released_context(self, begun, error),
            Space::Handle(Kind::GreenContext) if error == 0 => listener.green_ended(self.value),
            // Destroying a stream also ends its capture.
            Space::Handle(Kind::Stream) if error == 0 => {
                _ = listener.capture_ended(self.value, None)
            }
            _ => {}
        }
    }
}

impl Listener<'_> {
    /// Handles the end of a call that destroys a context or releases one of its uses. Releasing a
    /// use does not necessarily end a primary context, so its end is reported only if the driver
    /// says that it has ended.
    fn released_context(&self, call: &Frees, begun: &BegunFree, error: CuResult) {
        match begun.ending {
            Some(context) if error != 0 => self.contexts.has_not_ended(context),
            None if error == 0 => {
                if let Some(place) = self.place_of_primary(call) {
                    self.primary_ended(place, ContextEnd::Destroyed);
                }
            }
            ending => self.context_ended(ending, ContextEnd::Destroyed),
        }
    }

    /// Returns the place of a primary context if this call releases a use of that context.
    fn place_of_primary(&self, call: &Frees) -> Option<Place> {
        let (Space::Handle(Kind::Context), Share::References(..)) = (call.space, call.share) else {
            return None;
        };
        let context = self.contexts.find(call.value)?;
        context.is_primary.then_some(context.place)
    }
}

/// Returns the lock that keeps readings of the objects in this space apart from their destruction.
fn exclusion(space: Space) -> Option<&'static Exclusion> {
    match space {
        Space::Handle(Kind::Context | Kind::GreenContext) => Some(&CONTEXT_EXCLUSION),
        Space::Handle(Kind::Pool) => Some(&POOL_EXCLUSION),
        Space::Handle(Kind::Stream) => Some(&STREAM_EXCLUSION),
        _ => None,
    }
}
