//! Turns an intercepted call into events, in the order that keeps the ledger correct.
//!
//! Creations are reported after the call has returned success. Frees are reported before the call,
//! because another thread may get the same address before the call returns. If the call then fails,
//! the free is undone. The data that the end of a call needs from its beginning is stored in the
//! wrapper's own stack frame.
//!
//! The code in this module does not itself wait for a device, and never unwinds into C. It may wait
//! for
//!
//! - the locks of the harness's own tables: contexts, captures, backtraces, names of threads, a
//!   shard of the ledger and the lists stored next to the shards. Each lock is held for a single
//!   look-up or change;
//! - while events are being recorded, the lock that orders events. It is taken before the ledger's
//!   own locks, and a check holds it while it reads the live records;
//! - in a call that destroys something, and with no lock held, a
//!   [reading](crate::device::exclusion) of that object, which may itself wait for the object's
//!   work;
//! - in a call that retains or releases a primary context, another such call on the same device.

#![expect(
    unsafe_code,
    reason = "reads memory that the caller and the driver passed by pointer"
)]

use super::call::{Call, key, named, place_of};
use super::contexts::{CONTEXTS, PrimaryTurn};
use super::listener::Listener;
use super::{graphs, state};
use crate::api::wrapper::{initialises, reported};
use crate::capture::caller_without_stack;
use crate::device::driver;
use crate::device::exclusion::{CONTEXT_EXCLUSION, Destruction};
use crate::ledger::event::{CuResult, Event, Space, Ticket};
use crate::ledger::{self, Kind};

mod creation;
mod free;

/// A call that a row of the table describes. `Begun` holds what the end of the call needs from its
/// beginning.
pub(super) trait Intercepted<Begun: Default> {
    /// Reports that the call is about to be made, and fills `begun`.
    ///
    /// # Safety
    ///
    /// `self` is built from the call's parameters.
    unsafe fn began(&self, listener: &Listener<'_>, begun: &mut Begun);

    /// Reports that the call has returned `error`.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Self::began`], which must have been called with `begun`.
    unsafe fn ended(&self, listener: &Listener<'_>, begun: &Begun, error: CuResult);
}

/// Makes the program's call by calling `forward`, and reports the call. `per_thread` says whether
/// stream 0 is the thread's own stream.
#[inline(never)]
pub(super) fn intercept<Begun: Default>(
    call: &impl Intercepted<Begun>,
    per_thread: bool,
    forward: &mut dyn FnMut() -> CuResult,
) -> CuResult {
    // The process may begin to exit during the call, so the driver is looked up again at the end of
    // the call.
    let listener = || Listener {
        ledger: ledger::live(),
        contexts: &CONTEXTS,
        driver: driver::get(),
        per_thread,
    };
    // A tool's function may call the driver. Such a call is part of the program's call, and
    // resources that the tool needs for itself are not the program's.
    let is_one_call = state::are_two_drivers;
    reported(
        forward,
        is_one_call,
        |begun| {
            state::prepare();
            // SAFETY: `call` is built from the parameters of a call that is about to be made.
            unsafe { call.began(&listener(), begun) }
        },
        // SAFETY: `call` is built from the parameters of a call that has returned `error`.
        |begun, error| unsafe { call.ended(&listener(), begun, error) },
    )
}

/// The data that the end of a call needs from its beginning, for calls that neither create nor
/// free.
#[derive(Default)]
pub(super) struct BegunDriverCall {
    /// The ticket of a launch that was reported to the ledger.
    launch: Option<Ticket>,
    // These fields are dropped in this order, after everything has been reported.
    _destruction: Option<Destruction>,
    _turn: Option<PrimaryTurn>,
}

impl Intercepted<BegunDriverCall> for Call {
    unsafe fn began(&self, listener: &Listener<'_>, begun: &mut BegunDriverCall) {
        match self {
            Self::Initialises => initialises(),
            Self::RetainsPrimary(_, device) => begun._turn = PrimaryTurn::at(*device),
            Self::ReleasesPrimary(device, _) => {
                begun._turn = PrimaryTurn::at(*device);
                begun._destruction = CONTEXT_EXCLUSION.destroy();
            }
            // Most programs have no graph that allocates or frees memory. In them, this costs only
            // one load.
            Self::Launches(exec) if listener.ledger.knows_graph_memory() => {
                begun.launch = listener.report(Event::LaunchBegan {
                    exec: named(Kind::ExecGraph, *exec),
                    caller: caller_without_stack(),
                });
            }
            // All other calls are reported after they have returned.
            _ => {}
        }
    }

    unsafe fn ended(&self, listener: &Listener<'_>, begun: &BegunDriverCall, error: CuResult) {
        match *self {
            Self::Launches(_) => {
                if let Some(ticket) = begun.launch {
                    listener.report(Event::LaunchEnded { ticket, error });
                }
            }
            _ if error != 0 => {}
            Self::Initialises => state::initialised(),
            Self::RetainsPrimary(answer, device) => {
                let (place, caller) = (place_of(device), caller_without_stack());
                // SAFETY: the call was successful, so it has written its result.
                if let Some(context) = unsafe { answer.read() } {
                    listener.contexts.created(context, place, true);
                }
                listener.report(Event::PrimaryRetained { place, caller });
            }
            Self::ReleasesPrimary(device, cause) => listener.primary_released(device, cause),
            Self::ConvertsGreen(answer, green) => {
                // SAFETY: the call was successful, so it has written its result.
                if let Some(context) = unsafe { answer.read() } {
                    listener.contexts.converted(green, context);
                }
            }
            Self::Attaches(answer) => {
                let space = Space::Handle(Kind::Context);
                // SAFETY: the call was successful, so it has written its result.
                let key = unsafe { answer.read() }.and_then(|it| key(space, it));
                if let Some(key) = key.filter(|key| listener.ledger.get(key).is_some()) {
                    listener.report(Event::Retained { key, count: 1 });
                }
            }
            Self::RetainsMapped(answer, address) => {
                // SAFETY: the call was successful, so it has written its result.
                if let Some(handle) = unsafe { answer.read() } {
                    listener.report(Event::HandleRetained { handle, address });
                }
            }
            // SAFETY: the call that `node` describes was successful.
            Self::AddsNode(graph, node) => unsafe { graphs::node_added(listener, graph, node) },
            Self::BeginsCapture(stream, into) => listener.capture_began(stream, into),
            Self::BeginsRecapture(stream, graph) => {
                // The nodes are reported again.
                listener.nodes_moved(named(Kind::GraphHandle, graph), None);
                listener.capture_began(stream, graph);
            }
            Self::Causes(event) => {
                listener.report(event);
            }
        }
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests;
