//! What CUPTI calls: from callbacks to events, in the order that keeps the ledger right.
//!
//! CUPTI calls on the thread that made the driver call, at its beginning and at its end. Creations
//! are told at the end, when the driver has answered. Releases are told from the beginning, because
//! before the end another thread may have been given the same address: the ledger's ticket travels
//! from one side to the other in the slot that CUPTI keeps for each call.
//!
//! Nothing here calls CUDA or panics into C. It may wait for
//!
//! - the locks of the harness's own tables: contexts, captures, stacks, names of threads, a shard of
//!   the ledger and the lists beside the shards. Each is held for a look-up or a change;
//! - while a recording is made, the order of its events, which comes before the ledger's own locks:
//!   whoever judges holds it for one look at what is left;
//! - CUPTI, which is asked for the device of a context whose creation was not seen, with no lock of
//!   [`CONTEXTS`] held;
//! - in a destroy call, with no lock held, a [reading](crate::device::exclusion) of what it
//!   destroys: as long as the work that the reading itself waits for.

#![expect(
    unsafe_code,
    reason = "CUPTI hands over C structs, and the driver's parameters inside them"
)]

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::call::{Call, Creates, Releases};
use super::contexts::CONTEXTS;
use super::decode::{self, Current};
use super::ffi::{self, CallbackData, ResourceData};
use super::field::Block;
use super::library::Cupti;
use super::{numbered, watch};
use crate::capture::{caller, caller_without_stack, freeing_caller, stack};
use crate::device::exclusion::{CONTEXTS_AND_POOLS, Exclusion, STREAMS};
use crate::device::quiet::quiet_if_heard;
use crate::device::{captures, exit};
use crate::ledger::event::{
    ContextEnd, ContextUid, CuResult, Event, Key, SourceLoss, Space, StackId, Ticket,
};
use crate::ledger::{self, Kind, Ledger, Place};

/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`: the one error of `cuStreamEndCapture` that leaves the
/// capture going.
const WRONG_THREAD: CuResult = 908;

/// Stands in the upper 16 bits of a slot that holds a release: a call that began before the
/// harness listened has anything else there.
const IN_SLOT: u64 = 0x6c6b << 48;
const SLOT_MASK: u64 = 0xffff << 48;
/// In a slot's lower bits: a call that ends contexts without a release of its own. Tickets of
/// releases are above it, and do not reach 2⁴⁸ in the life of a process.
const NO_TICKET: u64 = 0;

/// Set when a callback panicked: the ledger can no longer be trusted.
static BROKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Where the call in progress creates a context.
    static CREATING_ON: Cell<Place> = const { Cell::new(Place::UNKNOWN) };
    /// How the call in progress ends a context.
    static ENDING_BY: Cell<Option<ContextEnd>> = const { Cell::new(None) };
    /// The context that it ends.
    static ENDING: Cell<ContextUid> = const { Cell::new(ContextUid(0)) };
}

/// Whether a callback panicked.
pub(super) fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// The function that CUPTI calls.
///
/// # Safety
///
/// To be called by CUPTI alone, as a [`ffi::Callback`] of the domains that
/// [`subscriber`](super::subscriber) enables.
pub(super) unsafe extern "C" fn entry(
    _user: *mut c_void,
    domain: u32,
    id: u32,
    data: *const c_void,
) {
    // In a forked child the locks below may be held by threads that no longer exist.
    if data.is_null() || exit::forked() || broken() {
        return;
    }
    let Some(_quiet) = quiet_if_heard() else {
        return;
    };
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let ledger = ledger::live();
        match domain {
            // SAFETY: in this domain `data` is a `CallbackData` of the watched call `id`.
            ffi::DOMAIN_DRIVER_API => unsafe { driver_call(ledger, id, &*data.cast()) },
            // SAFETY: in this domain, for the enabled ids, it is `ResourceData`.
            ffi::DOMAIN_RESOURCE => unsafe { resource(ledger, id, data.cast()) },
            ffi::DOMAIN_STATE if id == ffi::FATAL_ERROR => {
                let why = SourceLoss::CuptiFatal;
                ledger.apply(&Event::SourceLost { why });
            }
            _ => {}
        }
    }));
    if outcome.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
    }
}

/// # Safety
///
/// `data` is that of one side of the call `id`.
unsafe fn driver_call(ledger: &Ledger, id: u32, data: &CallbackData) {
    let Some(call) = watch::call(id) else {
        return;
    };
    if data.function_params.is_null() || data.correlation_data.is_null() {
        return;
    }
    let block = Block::new(data.function_params);
    match data.site {
        // SAFETY: the block is that of this call, and the slot its own.
        ffi::SITE_ENTER => unsafe { began(ledger, call, block, data) },
        ffi::SITE_EXIT if !data.function_return_value.is_null() => {
            // SAFETY: at a driver call's end this points to its `CUresult`.
            let error = unsafe { *data.function_return_value };
            // SAFETY: as above, and `error` says whether the answers are written.
            unsafe { ended(ledger, call, block, data, error) };
        }
        _ => {}
    }
}

/// # Safety
///
/// `block` and `data` are those of `call`, at its beginning.
unsafe fn began(ledger: &Ledger, call: &Call, block: Block, data: &CallbackData) {
    graphs::call_began();
    match call {
        Call::Creates(create) if create.creates_context() => {
            // SAFETY: the caller's promise.
            CREATING_ON.set(unsafe { decode::place(create, block) });
        }
        Call::RetainsPrimary { device } => {
            // SAFETY: the caller's promise.
            let device = unsafe { block.value(*device) };
            CREATING_ON.set(Place::cuda(device as usize));
        }
        // SAFETY: the caller's promise.
        Call::Releases(release) => unsafe { release_began(ledger, release, block, data) },
        Call::ReleasesPrimary { cause, .. } => {
            ENDING_BY.set(Some(*cause));
            // SAFETY: the caller's promise.
            unsafe { write_slot(data, Some(NO_TICKET)) };
            CONTEXTS_AND_POOLS.destruction_began();
        }
        Call::Launches { exec } => {
            // SAFETY: the caller's promise.
            let ticket = unsafe { graphs::launch_began(ledger, block.value(*exec)) };
            // SAFETY: the caller's promise.
            unsafe { write_slot(data, ticket.map(|ticket| ticket.0)) };
        }
        // The rest is told at its end.
        _ => {}
    }
}

/// # Safety
///
/// `block` and `data` are those of `call`, at its end; `error` is what it returned.
unsafe fn ended(ledger: &Ledger, call: &Call, block: Block, data: &CallbackData, error: CuResult) {
    match call {
        // SAFETY: the caller's promise.
        Call::Creates(create) => unsafe { creation_ended(ledger, create, block, data, error) },
        // SAFETY: the caller's promise.
        Call::Releases(release) => unsafe { release_ended(ledger, release, block, data, error) },
        Call::RetainsPrimary { .. } => {
            CREATING_ON.set(Place::UNKNOWN);
            current(ledger, data);
            if error == 0 {
                // SAFETY: the caller's promise.
                unsafe { success::told(ledger, call, block, data) };
            }
        }
        Call::ReleasesPrimary { .. } => {
            context_ended(ledger, error);
            if error == 0 {
                // SAFETY: the caller's promise.
                unsafe { success::told(ledger, call, block, data) };
            }
            // SAFETY: the caller's promise.
            if unsafe { read_slot(data) }.is_some() {
                CONTEXTS_AND_POOLS.destruction_ended();
            }
        }
        Call::Launches { .. } => {
            // SAFETY: the caller's promise.
            if let Some(ticket) = unsafe { read_slot(data) }.map(Ticket) {
                ledger.apply(&Event::LaunchEnded { ticket, error });
            }
        }
        // SAFETY: the caller's promise.
        _ if error == 0 => unsafe { success::told(ledger, call, block, data) },
        _ => {}
    }
}

/// # Safety
///
/// As for [`ended`].
unsafe fn creation_ended(
    ledger: &Ledger,
    create: &Creates,
    block: Block,
    data: &CallbackData,
    error: CuResult,
) {
    let current = current(ledger, data);
    if create.creates_context() {
        CREATING_ON.set(Place::UNKNOWN);
    }
    let adds_to = match create.ends_capture {
        // SAFETY: the caller's promise.
        Some(stream) if error != WRONG_THREAD => unsafe {
            graphs::capture_ended(ledger, create, stream, block, error)
        },
        _ => 0,
    };
    if error != 0 {
        // SAFETY: the caller's promise.
        let failed = unsafe { decode::creation_failed(create, block, error, caller()) };
        ledger.apply(&failed);
        return;
    }
    // SAFETY: the caller's promise, and the call has returned success.
    let Some(key) = (unsafe { decode::created_key(create, block) }) else {
        return;
    };
    if create.capturable && graphs::is_captured() {
        // SAFETY: as above.
        let (made, graph) = unsafe {
            (
                decode::created(create, block, key, current, caller()),
                graphs::captured_into(create.stream, block),
            )
        };
        ledger.apply(&Event::GraphAllocates { graph, made });
        return;
    }
    let key = numbered::created(key, data.context_uid);
    if adds_to == key.value {
        // The capture added to a graph that was there before and has its record.
        return;
    }
    if create.may_answer_again && ledger.get(&key).is_some() {
        return;
    }
    let current = match create.kind {
        // SAFETY: as above.
        Kind::Stream => unsafe { stream_s_context(create, block, current) },
        _ => current,
    };
    // SAFETY: as above.
    let made = unsafe { decode::created(create, block, key, current, caller()) };
    ledger.apply(&Event::Created(made));
    // SAFETY: as above.
    if let Some(references) = unsafe { decode::more_references(create, block, key) } {
        ledger.apply(&references);
    }
    if let Some(copies) = &create.copies {
        // SAFETY: as above.
        ledger.apply(&unsafe { decode::graph_copied(copies, block, key) });
    }
}

/// With what context a stream ends: with a green one that it is made for or in, which nothing else
/// does.
///
/// # Safety
///
/// As for [`began`].
unsafe fn stream_s_context(create: &Creates, block: Block, current: Current) -> Current {
    // SAFETY: the caller's promise; the table names a field of this call's block.
    let green = create.green.map(|green| unsafe { block.value(green) });
    let uid = CONTEXTS.green_of_stream(green, current.handle);
    Current {
        uid: uid.unwrap_or(current.uid),
        ..current
    }
}

/// # Safety
///
/// As for [`began`].
unsafe fn release_began(ledger: &Ledger, release: &Releases, block: Block, data: &CallbackData) {
    // SAFETY: the caller's promise.
    let Some(key) = (unsafe { decode::released_key(release, block) }) else {
        // SAFETY: the caller's promise.
        unsafe { write_slot(data, None) };
        return;
    };
    if release.space == Space::Handle(Kind::Context) {
        ENDING_BY.set(Some(ContextEnd::Destroyed));
    }
    let key = numbered::released(ledger, key, data.context_uid);
    // SAFETY: the caller's promise.
    let began = unsafe { decode::release_began(release, block, key, freeing_caller()) };
    let ticket = ledger.apply(&began);
    // SAFETY: the caller's promise.
    unsafe { write_slot(data, ticket.map(|ticket| ticket.0)) };
    // After the record has left the ledger: a reading that begins later does not find it.
    if let Some(exclusion) = exclusion(release.space) {
        exclusion.destruction_began();
    }
}

/// # Safety
///
/// As for [`ended`].
unsafe fn release_ended(
    ledger: &Ledger,
    release: &Releases,
    block: Block,
    data: &CallbackData,
    error: CuResult,
) {
    // SAFETY: the caller's promise.
    let Some(ticket) = (unsafe { read_slot(data) }).map(Ticket) else {
        return;
    };
    let captured = release.capturable && error == 0 && graphs::is_captured();
    ledger.apply(&match error {
        _ if captured => Event::ReleaseCaptured { ticket },
        0 => Event::ReleaseEnded {
            ticket,
            error,
            stack: StackId::default(),
        },
        _ => Event::ReleaseEnded {
            ticket,
            error,
            stack: stack(),
        },
    });
    if captured {
        // SAFETY: the caller's promise.
        let (graph, address) = unsafe {
            (
                graphs::captured_into(release.stream, block),
                block.value(release.identity),
            )
        };
        ledger.apply(&Event::GraphFrees { graph, address });
    }
    match release.space {
        Space::Handle(Kind::Context) => context_ended(ledger, error),
        Space::Handle(Kind::GreenContext) if error == 0 => {
            // SAFETY: the caller's promise.
            let green = unsafe { block.value(release.identity) };
            if let Some(context) = CONTEXTS.green_ended(green) {
                context_destroyed(ledger, context, ContextEnd::Destroyed);
            }
        }
        Space::Handle(Kind::Stream) if error == 0 => {
            // A capture that its stream did not outlive.
            // SAFETY: the caller's promise.
            captures::ended(unsafe { block.value(release.identity) });
        }
        _ => {}
    }
    if let Some(exclusion) = exclusion(release.space) {
        exclusion.destruction_ended();
    }
}

/// What keeps readings and the destruction of such objects apart.
fn exclusion(space: Space) -> Option<&'static Exclusion> {
    match space {
        Space::Handle(Kind::Context | Kind::GreenContext | Kind::Pool) => Some(&CONTEXTS_AND_POOLS),
        Space::Handle(Kind::Stream) => Some(&STREAMS),
        _ => None,
    }
}

/// The end of a call that may have ended a context.
fn context_ended(ledger: &Ledger, error: CuResult) {
    let cause = ENDING_BY.take();
    let context = ENDING.take();
    if let Some(cause) = cause
        && context != ContextUid(0)
        && error == 0
    {
        context_destroyed(ledger, context, cause);
    }
}

fn context_destroyed(ledger: &Ledger, context: ContextUid, cause: ContextEnd) {
    ledger.apply(&Event::ContextDestroyed {
        context,
        cause,
        caller: caller(),
    });
}

/// # Safety
///
/// `data` points to a [`ResourceData`].
unsafe fn resource(ledger: &Ledger, id: u32, data: *const ResourceData) {
    match id {
        // SAFETY: the caller's promise; not null, by `entry`.
        ffi::GRAPH_NODE_CREATED => unsafe { graphs::node_created(&*data) },
        ffi::CONTEXT_CREATED => {
            let place = CREATING_ON.get();
            // One that no watched call creates is asked for its device when it is first seen.
            if place != Place::UNKNOWN {
                // SAFETY: the caller's promise; not null, by `entry`.
                CONTEXTS.created(handle(unsafe { (*data).context }), place);
            }
        }
        ffi::CONTEXT_DESTROY_STARTING => {
            // SAFETY: the caller's promise; not null, by `entry`.
            let Some(context) = CONTEXTS.ending(handle(unsafe { (*data).context })) else {
                return;
            };
            if ENDING_BY.get().is_some() && ENDING.get() == ContextUid(0) {
                ENDING.set(context);
            } else if !ledger.is_all_its_own() {
                // No call of the program's: the driver takes itself down. What a whole program
                // holds then is what it has left.
                context_destroyed(ledger, context, ContextEnd::Destroyed);
            }
        }
        _ => {}
    }
}

/// The context current to this thread; tells the ledger of it when it is new.
fn current(ledger: &Ledger, data: &CallbackData) -> Current {
    let (handle, uid) = (handle(data.context), ContextUid(data.context_uid));
    let device = || {
        Cupti::kept().map_or(Place::UNKNOWN, |cupti| {
            // SAFETY: the context is current to this thread, inside a call: it is live.
            unsafe { cupti.device_of(data.context) }
        })
    };
    let seen = CONTEXTS.seen(handle, uid, device);
    if let Some(created) = &seen.created {
        ledger.apply(created);
    }
    Current {
        handle,
        uid: seen.owner,
        place: seen.place,
    }
}

fn handle(context: *const c_void) -> u64 {
    context.addr() as u64
}

/// Leaves `value` for the end of the call; none: there is nothing to end.
///
/// # Safety
///
/// `data` is that of a call's beginning.
unsafe fn write_slot(data: &CallbackData, value: Option<u64>) {
    let value = value.map_or(0, |value| IN_SLOT | value);
    // SAFETY: CUPTI's own slot for this call, for its subscriber to write; not null, by
    // `driver_call`.
    unsafe { data.correlation_data.write(value) };
}

/// What the beginning of the call left.
///
/// # Safety
///
/// `data` is that of a call's end.
unsafe fn read_slot(data: &CallbackData) -> Option<u64> {
    // SAFETY: CUPTI's own slot for this call; not null, by `driver_call`.
    let value = unsafe { data.correlation_data.read() };
    (value & SLOT_MASK == IN_SLOT).then_some(value & !SLOT_MASK)
}

#[cfg(all(any(test, fuzzing), target_pointer_width = "64"))]
pub(crate) mod fuzz;
mod graphs;
mod success;

#[cfg(all(test, target_pointer_width = "64"))]
mod tests;
