//! Turns an intercepted call into events, in the order that keeps the ledger correct.
//!
//! Creations are reported after the call has returned success. Frees are reported before the call,
//! because before it returns another thread may have got the same address; a free that fails is
//! undone. What the end needs from the beginning is stored in the wrapper's own frame.
//!
//! Nothing here waits for a device or unwinds into C. It may wait for
//!
//! - the locks of the harness's own tables: contexts, captures, backtraces, names of threads, a
//!   shard of the ledger and the lists beside the shards. Each is held for one look-up or change;
//! - while recording, the lock that orders events, which comes before the ledger's own locks: a
//!   check holds it while it reads what is left;
//! - in a call that destroys something, with no lock held, a [reading](crate::device::exclusion) of
//!   that object: for as long as the work that the reading itself waits for;
//! - in a call that retains or releases a primary context, another such call on the same device.

#![expect(
    unsafe_code,
    reason = "parameters point to what the caller and the driver have written"
)]

use super::call::{At, Bytes, Call, Creates, Releases, Share, key, named, place_of};
use super::contexts::{CONTEXTS, Context, PrimaryTurn};
use super::foreign::Argument;
use super::listener::Listener;
use super::{graphs, numbered, state};
use crate::api::wrapper::{broken, initialises, unbroken};
use crate::capture::{caller, caller_without_stack, freeing_caller, stack};
use crate::device::driver;
use crate::device::exclusion::{CONTEXTS_AND_POOLS, Destruction, Exclusion, STREAMS};
use crate::device::quiet::{quiet, try_quiet};
use crate::device::{captures, exit};
use crate::ledger::event::{
    ContextEnd, ContextUid, Creation, CuResult, Event, Key, Space, StackId, Ticket,
};
use crate::ledger::{self, Kind, Layer, Place};

/// `CUDA_ERROR_OUT_OF_MEMORY`: the driver has read the requested size.
const OUT_OF_MEMORY: CuResult = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
const AUTO_FREE: u64 = 1;
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`: the only error of `cuStreamEndCapture` that does not
/// end the capture.
const WRONG_THREAD: CuResult = 908;

/// Makes the program's call with `forward` and reports it. `per_thread`: whether its stream 0 is
/// the thread's own.
#[inline(never)]
pub(super) fn heard(
    call: &Call,
    per_thread: bool,
    forward: &mut dyn FnMut() -> CuResult,
) -> CuResult {
    // In a forked child the locks below may be held by threads that do not exist there.
    if exit::forked() || broken() {
        return forward();
    }
    let Some(at_work) = try_quiet() else {
        return forward();
    };
    state::prepare();
    let mut listener = Listener {
        ledger: ledger::live(),
        contexts: &CONTEXTS,
        driver: driver::get(),
        per_thread,
    };
    let mut begun = Begun::default();
    // SAFETY: `call` is built from the parameters of a call that is about to be made.
    let is_reported = unbroken(|| unsafe { listener.began(call, &mut begun) });
    // Calls from a tool's function to the driver are part of the same call, and what the tool needs
    // for itself is not the program's: so the guard is held during the call.
    let at_work = state::are_two_drivers().then_some(at_work);
    let error = forward();
    drop(at_work);
    if is_reported {
        let _at_work = quiet();
        // The process may have begun to exit meanwhile.
        listener.driver = driver::get();
        // SAFETY: that call has returned `error`.
        unbroken(|| unsafe { listener.ended(call, &begun, error) });
        // Its locks are released while this thread still holds the guard.
        drop(begun);
    }
    error
}

/// What the end of a call needs from its beginning. It is filled in place, because moving it would
/// cost more than filling it.
#[derive(Default)]
pub(super) struct Begun {
    /// The ticket of a free or launch that was reported to the ledger.
    ticket: Option<Ticket>,
    /// The graph into which the call is captured.
    captured: Option<Key>,
    /// The context that the call is about to end.
    ending: Option<Context>,
    // Dropped in this order, after everything has been reported.
    _destruction: Option<Destruction>,
    _turn: Option<PrimaryTurn>,
}

impl Listener<'_> {
    /// Reports that a call is about to be made. `begun` is empty.
    ///
    /// # Safety
    ///
    /// `call` is built from the call's parameters.
    pub(super) unsafe fn began(&self, call: &Call, begun: &mut Begun) {
        match call {
            Call::Initialises => initialises(),
            // SAFETY: the caller's promise.
            Call::Creates(create) => begun.captured = unsafe { self.captured(create.stream) },
            // SAFETY: the caller's promise.
            Call::Releases(release) => unsafe { self.release_began(release, begun) },
            Call::RetainsPrimary(_, device) => begun._turn = PrimaryTurn::at(*device),
            Call::ReleasesPrimary(device, _) => {
                begun._turn = PrimaryTurn::at(*device);
                begun._destruction = Some(CONTEXTS_AND_POOLS.destroy());
            }
            // Most launches do not allocate or free memory, and cost one load.
            Call::Launches(exec) if self.ledger.knows_graph_memory() => {
                begun.ticket = self.tell(Event::LaunchBegan {
                    exec: named(Kind::ExecGraph, *exec),
                    caller: caller_without_stack(),
                });
            }
            // The others are reported after the call.
            _ => {}
        }
    }

    /// Reports that the call has returned `error`.
    ///
    /// # Safety
    ///
    /// As for [`Self::began`], which filled `begun`.
    pub(super) unsafe fn ended(&self, call: &Call, begun: &Begun, error: CuResult) {
        match *call {
            // SAFETY: the caller's promise.
            Call::Creates(ref create) if error == 0 => unsafe { self.created(create, begun) },
            // SAFETY: the caller's promise.
            Call::Creates(ref create) => unsafe { self.creation_failed(create, error) },
            Call::Releases(ref release) => self.release_ended(release, begun, error),
            Call::Launches(_) => {
                if let Some(ticket) = begun.ticket {
                    self.tell(Event::LaunchEnded { ticket, error });
                }
            }
            _ if error != 0 => {}
            Call::Initialises => state::initialised(),
            Call::RetainsPrimary(answer, device) => {
                let (place, caller) = (place_of(device), caller_without_stack());
                // SAFETY: the call has returned success.
                if let Some(context) = unsafe { answer.read() } {
                    self.contexts.created(context, place, true);
                }
                self.tell(Event::PrimaryRetained { place, caller });
            }
            Call::ReleasesPrimary(device, cause) => self.primary_released(device, cause),
            Call::ConvertsGreen(answer, green) => {
                // SAFETY: the call has returned success.
                if let Some(context) = unsafe { answer.read() } {
                    self.contexts.converted(green, context);
                }
            }
            Call::Attaches(answer) => {
                let space = Space::Handle(Kind::Context);
                // SAFETY: the call has returned success.
                if let Some(key) = unsafe { answer.read() }.and_then(|it| key(space, it)) {
                    self.tell(Event::Retained { key, count: 1 });
                }
            }
            Call::RetainsMapped(answer, address) => {
                // SAFETY: the call has returned success.
                if let Some(handle) = unsafe { answer.read() } {
                    self.tell(Event::HandleRetained { handle, address });
                }
            }
            // SAFETY: the call has returned success.
            Call::AddsNode(graph, node) => unsafe { graphs::node_added(self, graph, node) },
            Call::BeginsCapture(stream, into) => captures::began(stream, into),
            Call::Tells(event) => {
                self.tell(event);
            }
        }
    }

    /// Returns the graph into which a call on `stream` is captured, or the stream if the graph has
    /// no handle yet.
    ///
    /// # Safety
    ///
    /// The stream is a parameter of a call that is about to be made.
    unsafe fn captured(&self, stream: Option<u64>) -> Option<Key> {
        let stream = stream.filter(|_| captures::active())?;
        // SAFETY: as the caller promises, the stream lives as long as the program's own call needs
        // it.
        let into = unsafe { self.driver?.captured_into(stream, self.per_thread) };
        into.ok()?.map(|into| match into {
            0 => named(Kind::Stream, stream),
            _ => named(Kind::GraphHandle, into),
        })
    }

    /// If `create` ends a capture, records that it has ended with `graph`. Returns the existing
    /// graph that it added to, or 0 for a new one.
    fn capture_ended(&self, create: &Creates, graph: Option<Key>) -> u64 {
        let Some(stream) = create.ends_capture else {
            return 0;
        };
        let into = captures::ended(stream);
        self.tell(Event::CaptureEnded {
            stream: named(Kind::Stream, stream),
            graph,
            is_last: !captures::active(),
        });
        into
    }

    /// # Safety
    ///
    /// The call that `create` describes has returned `error`.
    unsafe fn creation_failed(&self, create: &Creates, error: CuResult) {
        if error != WRONG_THREAD {
            self.capture_ended(create, None);
        }
        self.tell(Event::CreationFailed {
            kind: create.kind,
            // SAFETY: the caller's promise.
            bytes: unsafe { self.bytes(create, 0, error) },
            error,
            caller: caller(),
        });
    }

    /// # Safety
    ///
    /// The call that `create` describes has returned success, and `begun` is from its beginning.
    unsafe fn created(&self, create: &Creates, begun: &Begun) {
        // `None` if the caller passed null for the result or the driver returned null: then nothing
        // was created.
        // SAFETY: the call has returned success.
        let made = unsafe { create.identity.read() }.and_then(|it| key(create.space, it));
        let added_to = match create.ends_capture {
            Some(_) => self.capture_ended(create, made),
            None => 0,
        };
        // A graph that a capture added to existed before and has its record.
        let Some(key) = made.filter(|key| key.value() != added_to) else {
            return;
        };
        match (create.kind, create.place) {
            (Kind::Context, At::Device(device)) => {
                self.contexts.created(key.value(), place_of(device), false);
            }
            (Kind::GreenContext, At::Device(device)) => {
                self.contexts.green_created(key.value(), place_of(device));
            }
            _ => {}
        }
        let mut context = self.current();
        let key = numbered::created(key, context.uid);
        if create.may_answer_again && self.ledger.get(&key).is_some() {
            return;
        }
        if create.kind == Kind::Stream {
            // A stream ends with the green context that it was created for or in; nothing else
            // does.
            let green = self.contexts.green_of_stream(create.green, context.handle);
            context.owner = green.unwrap_or(context.owner);
        }
        // SAFETY: the call has returned success.
        let made = unsafe { self.creation(create, key, &context) };
        if let Some(graph) = begun.captured {
            self.tell(Event::GraphAllocates { graph, made });
            return;
        }
        self.tell(Event::Created(made));
        if create.references > 1 {
            let count = create.references - 1;
            self.tell(Event::Retained { key, count });
        }
        if let Some((from, flags)) = create.copies {
            // SAFETY: the call has returned success.
            let flags = unsafe { flags.read() }.unwrap_or(0);
            self.tell(Event::GraphCopied {
                from: named(Kind::GraphHandle, from),
                to: key,
                auto_free: flags & AUTO_FREE != 0,
            });
        }
    }

    /// Returns the creation event of a resource with `key`.
    ///
    /// # Safety
    ///
    /// The call that `create` describes has returned success.
    #[inline]
    unsafe fn creation(&self, create: &Creates, key: Key, current: &Context) -> Creation {
        let place = match create.place {
            At::Context => Place::UNKNOWN,
            At::Host => Place::HOST,
            At::Device(device) => place_of(device),
            At::Properties(properties) => {
                // SAFETY: the call has returned success.
                let properties = unsafe { properties.read() };
                properties.map_or(Place::UNKNOWN, graphs::location)
            }
        };
        // A context does not belong to the one that was current when it was created, and must not
        // end with it.
        let is_another = create.kind == Kind::Context && current.handle != key.value();
        // Memory from an explicit pool is at the pool's place, which the ledger knows.
        let is_in_context = place == Place::UNKNOWN && create.pool == 0;
        Creation {
            key,
            kind: create.kind,
            layer: Layer::DRIVER,
            place: if is_in_context { current.place } else { place },
            // SAFETY: the call has returned success.
            bytes: unsafe { self.bytes(create, key.value(), 0) },
            context: if is_another || create.outlives_context {
                ContextUid::default()
            } else {
                current.owner
            },
            stream: create.stream.unwrap_or(0),
            pool: create.pool,
            caller: caller(),
        }
    }

    /// Returns the size of the resource at `address`, which was created by a call that returned `error`.
    ///
    /// # Safety
    ///
    /// `create` is built from that call.
    unsafe fn bytes(&self, create: &Creates, address: u64, error: CuResult) -> u64 {
        // SAFETY: as the caller promises, results are read after success, and descriptors only after
        // the driver has read them.
        unsafe {
            match create.bytes {
                Bytes::Stated(Argument::Given(bytes)) => bytes,
                Bytes::Stated(at) if matches!(error, 0 | OUT_OF_MEMORY) => at.read().unwrap_or(0),
                Bytes::Rows {
                    pitch,
                    width,
                    height,
                } => {
                    let pitch = (error == 0).then(|| pitch.read()).flatten();
                    pitch.unwrap_or(width).saturating_mul(height)
                }
                Bytes::Asked if error == 0 => {
                    let bytes = self.driver.map(|driver| driver.bytes_at(address));
                    bytes.and_then(Result::ok).unwrap_or(0)
                }
                Bytes::Asked | Bytes::Stated(_) => 0,
            }
        }
    }

    /// # Safety
    ///
    /// As for [`Self::began`].
    unsafe fn release_began(&self, release: &Releases, begun: &mut Begun) {
        let Some(key) = key(release.space, release.value) else {
            return;
        };
        // SAFETY: the caller's promise.
        begun.captured = unsafe { self.captured(release.stream) };
        begun.ticket = match release.share {
            Share::Whole if numbered::is_numbered(key) => {
                let key = numbered::released(self.ledger, key, self.current().uid);
                let caller = freeing_caller();
                self.tell(Event::ReleaseBegan { key, caller })
            }
            Share::Whole => {
                let caller = freeing_caller();
                self.tell(Event::ReleaseBegan { key, caller })
            }
            Share::References(count, graph) => self.tell(Event::GiveBackBegan {
                key,
                count,
                graph,
                caller: freeing_caller(),
            }),
            Share::Maps(bytes) => self.tell(Event::UnmapBegan {
                address: key.value(),
                bytes,
                caller: freeing_caller(),
            }),
        };
        // After the record has left the ledger, so that a later reading does not find it.
        begun._destruction = exclusion(release.space).map(Exclusion::destroy);
        if let (Space::Handle(Kind::Context), Share::Whole) = (release.space, release.share) {
            begun.ending = self.contexts.end(|it| it.handle == key.value());
        }
    }

    fn release_ended(&self, release: &Releases, begun: &Begun, error: CuResult) {
        if let Some(ticket) = begun.ticket {
            let captured = begun.captured.filter(|_| error == 0);
            // A backtrace costs more than the rest of a free, and a free that succeeds does not
            // need one.
            let stack = if error == 0 {
                StackId::default()
            } else {
                stack()
            };
            self.tell(match captured {
                Some(_) => Event::ReleaseCaptured { ticket },
                None => Event::ReleaseEnded {
                    ticket,
                    error,
                    stack,
                },
            });
            if let Some(graph) = captured {
                let address = release.value;
                self.tell(Event::GraphFrees { graph, address });
            }
        }
        match release.space {
            Space::Handle(Kind::Context) => self.context_released(release, begun, error),
            Space::Handle(Kind::GreenContext) if error == 0 => self.green_ended(release.value),
            // The capture ended with its stream.
            Space::Handle(Kind::Stream) if error == 0 => {
                captures::ended(release.value);
            }
            _ => {}
        }
    }

    /// Handles the end of a call that destroys a context or releases one use of it.
    fn context_released(&self, release: &Releases, begun: &Begun, error: CuResult) {
        let ended = match begun.ending {
            Some(context) if error != 0 => {
                self.contexts.has_not_ended(context);
                return;
            }
            Some(context) => Some(context),
            // It was the last use, if the ledger does not know of another.
            None => key(release.space, release.value)
                .filter(|key| error == 0 && self.ledger.get(key).is_none())
                .and_then(|key| self.contexts.end(|it| it.handle == key.value())),
        };
        self.context_ended(ended.and_then(Context::reported), ContextEnd::Destroyed);
    }
}

/// Returns the lock that keeps readings and the destruction of such objects apart.
fn exclusion(space: Space) -> Option<&'static Exclusion> {
    match space {
        Space::Handle(Kind::Context | Kind::GreenContext | Kind::Pool) => Some(&CONTEXTS_AND_POOLS),
        Space::Handle(Kind::Stream) => Some(&STREAMS),
        _ => None,
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests;
