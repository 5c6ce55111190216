//! A call that is heard: from its two sides to events, in the order that keeps the ledger right.
//!
//! Creations are told when the call has returned, with success. Releases are told before it is made,
//! because before it returns another thread may have been given the same address; one that fails is
//! put back. What the second side needs of the first is a value of the wrapper's own frame.
//!
//! Nothing here waits for a device or panics into C. It may wait for
//!
//! - the locks of the harness's own tables: contexts, captures, stacks, names of threads, a shard of
//!   the ledger and the lists beside the shards. Each is held for a look-up or a change;
//! - while a recording is made, the order of its events, which comes before the ledger's own locks:
//!   whoever judges holds it for one look at what is left;
//! - in a call that destroys, with no lock held, a [reading](crate::device::exclusion) of what it
//!   destroys: as long as the work that the reading itself waits for;
//! - in a call that retains or releases a primary context, another such call on the same device.

#![expect(
    unsafe_code,
    reason = "parameters point to what the caller and the driver have written"
)]

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use super::array::Array;
use super::call::{At, Bytes, Call, Creates, Identity, Releases, Share, graph, key, place_of};
use super::contexts::{CONTEXTS, Context, Contexts};
use super::graphs;
use super::primaries::{self, Turn};
use super::questions::{OfDriver, Questions};
use super::{numbered, state};
use crate::capture::{caller, caller_without_stack, stack};
use crate::device::exclusion::{CONTEXTS_AND_POOLS, Destruction, Exclusion, STREAMS};
use crate::device::quiet::{quiet, quiet_if_heard};
use crate::device::{captures, exit};
use crate::ledger::event::{
    ContextEnd, ContextUid, Creation, CuResult, Event, Key, Space, StackId, Ticket,
};
use crate::ledger::{self, Kind, Layer, Ledger, Place};

/// `CUDA_ERROR_OUT_OF_MEMORY`: the driver has read how much it was asked for.
const OUT_OF_MEMORY: CuResult = 2;
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`: the one error of `cuStreamEndCapture` that leaves the
/// capture going.
const WRONG_THREAD: CuResult = 908;
/// `CU_GRAPH_USER_OBJECT_MOVE`
const MOVE: u32 = 1;

/// Set when the harness panicked in a call: the ledger can no longer be trusted.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether the harness panicked in a call.
pub(super) fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Makes a call of the program's, by `forward`, and tells of it. `per_thread` says what stream 0 is to
/// it: the thread's own.
#[inline(never)]
pub(super) fn heard(
    call: &Call,
    per_thread: bool,
    forward: &mut dyn FnMut() -> CuResult,
) -> CuResult {
    // In a forked child the locks below may be held by threads that no longer exist.
    if exit::forked() || broken() {
        return forward();
    }
    let Some(at_work) = quiet_if_heard() else {
        return forward();
    };
    state::prepare();
    let listener = Listener {
        ledger: ledger::live(),
        contexts: &CONTEXTS,
        driver: &OfDriver,
        per_thread,
    };
    // SAFETY: `call` is made of the parameters of a call that is about to be made.
    let begun = unbroken(|| unsafe { listener.began(call) });
    drop(at_work);
    let error = forward();
    if let Some(begun) = begun {
        let _at_work = quiet();
        // SAFETY: that call has returned `error`.
        unbroken(|| unsafe { listener.ended(call, begun, error) });
    }
    error
}

/// What `work` answers; none if it panics, which must not reach the driver or who called it.
fn unbroken<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    if outcome.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
    }
    outcome.ok()
}

/// Whom a call is told to, and who is asked about it.
pub(super) struct Listener<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) contexts: &'a Contexts,
    pub(super) driver: &'a dyn Questions,
    pub(super) per_thread: bool,
}

/// What the end of a call needs of its beginning.
#[derive(Default)]
pub(super) struct Begun {
    /// The release or launch that the ledger has been told of.
    ticket: Option<Ticket>,
    /// What the call is captured into.
    captured: Option<Key>,
    /// The context that the call is about to end.
    ending: Option<Context>,
    /// Where the green context is that the call is about to end.
    device: Option<i32>,
    // Given back in this order, behind all that is told.
    _destruction: Option<Destruction>,
    _turn: Option<Turn>,
}

impl Listener<'_> {
    /// A call is about to be made.
    ///
    /// # Safety
    ///
    /// `call` is made of its parameters.
    pub(super) unsafe fn began(&self, call: &Call) -> Begun {
        match call {
            Call::Creates(create) => Begun {
                // SAFETY: the caller's promise.
                captured: unsafe { self.captured(create.stream) },
                ..Begun::default()
            },
            // SAFETY: the caller's promise.
            Call::Releases(release) => unsafe { self.release_began(release) },
            Call::RetainsPrimary { device, .. } => Begun {
                _turn: primaries::turn(*device),
                ..Begun::default()
            },
            Call::ReleasesPrimary { device, .. } => {
                let turn = primaries::turn(*device);
                Begun {
                    _turn: turn,
                    _destruction: Some(CONTEXTS_AND_POOLS.destroy()),
                    ..Begun::default()
                }
            }
            Call::Launches { exec } => Begun {
                ticket: graphs::launch_began(self.ledger, *exec),
                ..Begun::default()
            },
            // The rest is told at its end.
            _ => Begun::default(),
        }
    }

    /// That call has returned `error`.
    ///
    /// # Safety
    ///
    /// As for [`Self::began`], which has answered `begun`.
    pub(super) unsafe fn ended(&self, call: &Call, begun: Begun, error: CuResult) {
        match call {
            Call::Initialises => state::initialised(error),
            // SAFETY: the caller's promise.
            Call::Creates(create) => unsafe { self.creation_ended(create, &begun, error) },
            Call::Releases(release) => self.release_ended(release, &begun, error),
            Call::Launches { .. } => {
                if let Some(ticket) = begun.ticket {
                    self.tell(Event::LaunchEnded { ticket, error });
                }
            }
            // SAFETY: the caller's promise.
            _ if error == 0 => unsafe { self.succeeded(call) },
            _ => {}
        }
    }

    pub(super) fn tell(&self, event: Event) -> Option<Ticket> {
        self.ledger.apply(&event)
    }

    /// The context current to this thread; tells the ledger of it when it is new.
    pub(super) fn current(&self) -> Context {
        let handle = self.driver.current_context();
        let place = || self.driver.current_device();
        let (context, created) = self.contexts.seen(handle, place);
        if let Some(created) = created {
            self.tell(created);
        }
        context
    }

    /// The graph that a call ordered by `stream` is captured into; the stream, of a graph without a
    /// name.
    ///
    /// # Safety
    ///
    /// The stream is a parameter of a call that is about to be made.
    unsafe fn captured(&self, stream: Option<u64>) -> Option<Key> {
        let stream = stream.filter(|_| captures::active())?;
        // SAFETY: the caller's promise.
        let into = unsafe { self.driver.captured_into(stream, self.per_thread) };
        into.map(|into| match into {
            0 => graphs::captured_stream(stream),
            _ => graph(into),
        })
    }

    /// # Safety
    ///
    /// As for [`Self::ended`].
    unsafe fn creation_ended(&self, create: &Creates, begun: &Begun, error: CuResult) {
        let added_to = match create.ends_capture {
            // SAFETY: the caller's promise.
            Some(stream) if error != WRONG_THREAD => unsafe {
                graphs::capture_ended(self, create, stream, error)
            },
            _ => 0,
        };
        if error != 0 {
            self.tell(Event::CreationFailed {
                kind: create.kind,
                // SAFETY: the caller's promise.
                bytes: unsafe { self.bytes(create, 0, error) },
                error,
                caller: caller(),
            });
            return;
        }
        // SAFETY: the call has returned success.
        let Some(key) = (unsafe { created_key(create) }) else {
            return;
        };
        if create.kind == Kind::Context {
            // SAFETY: the caller's promise.
            let place = unsafe { place(create) };
            self.contexts.created(key.value, place);
        }
        if let Some(graph) = begun.captured {
            // SAFETY: the call has returned success.
            let made = unsafe { self.made(create, key, self.current()) };
            self.tell(Event::GraphAllocates { graph, made });
            return;
        }
        if added_to == key.value {
            // The capture added to a graph that was there before and has its record.
            return;
        }
        let mut context = self.current();
        let key = numbered::created(key, context.uid);
        if create.may_answer_again && self.ledger.get(&key).is_some() {
            return;
        }
        if create.kind == Kind::Stream {
            // A stream ends with the green context that it is made for or in, as nothing else does.
            let green = self
                .contexts
                .green_of_stream(create.green, context.handle);
            context.owner = green.unwrap_or(context.owner);
        }
        // SAFETY: the call has returned success.
        self.tell(Event::Created(unsafe { self.made(create, key, context) }));
        if create.references > 1 {
            let count = create.references - 1;
            self.tell(Event::Retained { key, count });
        }
        if let Some((from, flags)) = create.copies {
            // SAFETY: the call has returned success.
            let auto_free = unsafe { graphs::frees_at_launch(flags) };
            self.tell(Event::GraphCopied {
                from: graph(from),
                to: key,
                auto_free,
            });
        }
    }

    /// The record of what a call made under `key`.
    ///
    /// # Safety
    ///
    /// The call that `create` is made of has returned success.
    unsafe fn made(&self, create: &Creates, key: Key, current: Context) -> Creation {
        // SAFETY: the caller's promise, for both.
        let (bytes, place) = unsafe { (self.bytes(create, key.value, 0), place(create)) };
        // A context belongs to no other: the one that was current before must not take it along when
        // it ends.
        let is_another = create.kind == Kind::Context && current.handle != key.value;
        // What comes from an explicit pool is where the pool is, which the ledger knows.
        let is_in_context = place == Place::UNKNOWN && create.pool == 0;
        Creation {
            key,
            kind: create.kind,
            layer: Layer::DRIVER,
            place: if is_in_context { current.place } else { place },
            bytes,
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

    /// The size of what a call that returned `error` makes at `address`.
    ///
    /// # Safety
    ///
    /// `create` is made of that call.
    unsafe fn bytes(&self, create: &Creates, address: u64, error: CuResult) -> u64 {
        // A descriptor is only as good as the driver found it.
        let is_described = matches!(error, 0 | OUT_OF_MEMORY);
        // SAFETY: the caller's promise: answers are read after success, and descriptors where the
        // driver has read them.
        let array: Option<Array> = unsafe {
            match create.bytes {
                Bytes::Given(bytes) => return bytes,
                Bytes::Rows {
                    pitch,
                    width,
                    height,
                } => {
                    let pitch = (error == 0).then(|| pitch.read()).flatten();
                    return pitch.unwrap_or(width).saturating_mul(height);
                }
                Bytes::Asked if error == 0 => return self.driver.bytes_at(address),
                Bytes::None | Bytes::Asked => return 0,
                _ if !is_described => return 0,
                Bytes::ExternalBuffer(at) => return at.read().map_or(0, |buffer| buffer.bytes),
                Bytes::Array(at) => at.read().map(Array::from),
                Bytes::ArrayV1(at) => at.read().map(Array::from),
                Bytes::Array3D(at) => at.read().map(Array::from),
                Bytes::Array3DV1(at) => at.read().map(Array::from),
                Bytes::Mipmapped(at, levels) => at.read().map(|descriptor| Array {
                    levels,
                    ..descriptor.into()
                }),
                Bytes::ExternalMipmapped(at) => at.read().map(Array::from),
            }
        };
        array.map_or(0, |array| array.bytes())
    }

    /// # Safety
    ///
    /// As for [`Self::began`].
    unsafe fn release_began(&self, release: &Releases) -> Begun {
        let Some(key) = release.key() else {
            return Begun::default();
        };
        // SAFETY: the caller's promise.
        let captured = unsafe { self.captured(release.stream) };
        let key = match numbered::is_numbered(key) {
            true => numbered::released(self.ledger, key, self.current().uid),
            false => key,
        };
        let is_green = release.space == Space::Handle(Kind::GreenContext);
        let green = is_green.then(|| self.ledger.get(&key)).flatten();
        let device = green.and_then(|green| green.made.place.cuda_ordinal());
        let device = device.and_then(|device| i32::try_from(device).ok());
        let turn = device.and_then(primaries::turn);
        let ticket = self.tell(began(release, key));
        // After the record has left the ledger: a reading that begins later does not find it.
        let destruction = exclusion(release.space).map(Exclusion::destroy);
        let ends_context = release.space == Space::Handle(Kind::Context)
            && matches!(release.share, Share::Whole);
        Begun {
            ticket,
            captured,
            ending: ends_context.then(|| self.contexts.ending(key.value)).flatten(),
            device,
            _destruction: destruction,
            _turn: turn,
        }
    }

    fn release_ended(&self, release: &Releases, begun: &Begun, error: CuResult) {
        if let Some(ticket) = begun.ticket {
            let captured = begun.captured.filter(|_| error == 0);
            self.tell(match (captured, error) {
                (Some(_), _) => Event::ReleaseCaptured { ticket },
                (None, 0) => Event::ReleaseEnded {
                    ticket,
                    error,
                    stack: StackId::default(),
                },
                (None, _) => Event::ReleaseEnded {
                    ticket,
                    error,
                    stack: stack(),
                },
            });
            if let Some(graph) = captured {
                let address = release.value;
                self.tell(Event::GraphFrees { graph, address });
            }
        }
        match release.space {
            Space::Handle(Kind::Context) => self.context_released(release, begun, error),
            Space::Handle(Kind::GreenContext) if error == 0 => {
                self.green_ended(release.value, begun.device);
            }
            // A capture that its stream did not outlive.
            Space::Handle(Kind::Stream) if error == 0 => {
                captures::ended(release.value);
            }
            _ => {}
        }
    }

    /// A call that destroys a context, or gives one use of it back, has returned.
    fn context_released(&self, release: &Releases, begun: &Begun, error: CuResult) {
        let ended = match (begun.ending, error) {
            (ended, 0) => ended.or_else(|| {
                // The last use of it, if the ledger does not know of another.
                let is_used = release.key().is_none_or(|key| self.ledger.get(&key).is_some());
                (!is_used).then(|| self.contexts.ending(release.value))?
            }),
            (Some(context), _) => {
                self.contexts.has_not_ended(context);
                None
            }
            (None, _) => None,
        };
        if let Some(context) = ended.and_then(Context::told) {
            self.context_ended(context, ContextEnd::Destroyed);
        }
    }

    /// A green context was destroyed, and what it was converted to with it; and the primary context of
    /// its device, where nothing else has held that.
    fn green_ended(&self, green: u64, device: Option<i32>) {
        let green = self.contexts.green_ended(green);
        let device = device.filter(|device| self.driver.primary_is_active(*device) == Some(false));
        let primary = device.and_then(|device| self.contexts.primary_ending(place_of(device)));
        for context in [green, primary.and_then(Context::told)].into_iter().flatten() {
            self.context_ended(context, ContextEnd::Destroyed);
        }
    }

    fn context_ended(&self, context: ContextUid, cause: ContextEnd) {
        self.tell(Event::ContextDestroyed {
            context,
            cause,
            caller: caller(),
        });
    }

    /// A call that changes something only when it succeeds has.
    ///
    /// # Safety
    ///
    /// `call` is made of its parameters.
    unsafe fn succeeded(&self, call: &Call) {
        match *call {
            Call::RetainsPrimary { device, context } => {
                let place = place_of(device);
                // SAFETY: the call has returned success.
                if let Some(context) = unsafe { context.read() } {
                    self.contexts.retained(context, place);
                }
                let caller = caller_without_stack();
                self.tell(Event::PrimaryRetained { place, caller });
            }
            Call::ReleasesPrimary { device, cause } => self.primary_released(device, cause),
            Call::ConvertsGreen { context, green } => {
                // SAFETY: the call has returned success.
                if let Some(context) = unsafe { context.read() } {
                    self.contexts.converted(green, context);
                }
            }
            Call::Retains {
                space,
                identity,
                count,
            } => {
                // SAFETY: the call has returned success.
                let value = unsafe { read(identity) };
                if let Some(key) = value.and_then(|value| key(space, value)) {
                    self.tell(Event::Retained { key, count });
                }
            }
            Call::GraphRetains {
                graph: holder,
                object,
                count,
                flags,
            } => {
                let space = Space::Handle(Kind::UserObject);
                self.tell(Event::GraphRetained {
                    graph: graph(holder),
                    key: Key {
                        space,
                        value: object,
                    },
                    count,
                    moved: flags & MOVE != 0,
                });
            }
            // SAFETY: the call has returned success.
            Call::AddsNode { graph, node } => unsafe { graphs::node_added(self, graph, node) },
            Call::UpdatesExec { exec, graph: from } => {
                self.tell(Event::GraphUpdated {
                    exec: graphs::exec(exec),
                    graph: graph(from),
                });
            }
            Call::Maps {
                address,
                bytes,
                handle,
            } => {
                self.tell(Event::Mapped {
                    address,
                    bytes,
                    handle,
                });
            }
            Call::RetainsMapped { handle, address } => {
                // SAFETY: the call has returned success.
                if let Some(handle) = unsafe { handle.read() } {
                    self.tell(Event::HandleRetained { handle, address });
                }
            }
            Call::BeginsCapture { stream, into } => captures::began(stream, into),
            Call::Initialises | Call::Creates(_) | Call::Releases(_) | Call::Launches { .. } => {}
        }
    }

    /// A primary context was released or reset: has it ended?
    fn primary_released(&self, device: i32, cause: ContextEnd) {
        let place = place_of(device);
        // A reset ends it, whoever holds it, and leaves its holders what they hold.
        let is_reset = cause == ContextEnd::Reset;
        if is_reset || self.driver.primary_is_active(device) == Some(false) {
            let ended = self.contexts.primary_ending(place);
            if let Some(context) = ended.and_then(Context::told) {
                self.context_ended(context, cause);
            }
        }
        if !is_reset {
            let caller = caller_without_stack();
            self.tell(Event::PrimaryReleased { place, caller });
        }
    }
}

/// The identity of what a call made; none when the caller passed null for the answer or the driver
/// answered null: then nothing was made.
///
/// # Safety
///
/// The call that `create` is made of has returned success.
pub(super) unsafe fn created_key(create: &Creates) -> Option<Key> {
    // SAFETY: the caller's promise.
    key(create.space, unsafe { read(create.identity) }?)
}

/// # Safety
///
/// The call has returned success.
unsafe fn read(identity: Identity) -> Option<u64> {
    match identity {
        // SAFETY: the caller's promise.
        Identity::Answered(answer) => unsafe { answer.read() },
        Identity::Given(value) => Some(value),
    }
}

/// Where what a call makes is.
///
/// # Safety
///
/// The call that `create` is made of has returned success.
unsafe fn place(create: &Creates) -> Place {
    match create.place {
        At::Context => Place::UNKNOWN,
        At::Host => Place::HOST,
        At::Device(device) => place_of(device),
        At::Properties(properties) => {
            // SAFETY: the caller's promise.
            let properties = unsafe { properties.read() };
            properties.map_or(Place::UNKNOWN, graphs::location)
        }
    }
}

/// The beginning of a call that gives `key` back.
fn began(release: &Releases, key: Key) -> Event {
    let caller = caller_without_stack();
    let references = |count, graph| Event::GiveBackBegan {
        key,
        count,
        graph,
        caller,
    };
    match release.share {
        Share::Whole => Event::ReleaseBegan { key, caller },
        Share::References(count) => references(count, None),
        Share::GraphReferences {
            graph: holder,
            count,
        } => references(count, Some(graph(holder))),
        Share::Maps(bytes) => Event::UnmapBegan {
            address: key.value,
            bytes,
            caller,
        },
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

#[cfg(all(test, target_pointer_width = "64"))]
mod tests;
