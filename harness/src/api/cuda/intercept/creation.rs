//! Calls that create a resource.

use super::Intercepted;
use crate::api::cuda::call::{At, Bytes, Creates, key, named, place_of};
use crate::api::cuda::contexts::Context;
use crate::api::cuda::foreign::Argument;
use crate::api::cuda::listener::{Listener, PER_THREAD};
use crate::api::cuda::{graphs, numbered};
use crate::capture::caller;
use crate::device::captures;
use crate::ledger::event::{ContextUid, Creation, CuResult, Event, Key};
use crate::ledger::{Kind, Layer, Place};

/// `CUDA_ERROR_OUT_OF_MEMORY`. If the driver returns this error, it has read the requested size.
const OUT_OF_MEMORY: CuResult = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
const AUTO_FREE: u64 = 1;
/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`. It is the only error of `cuStreamEndCapture` after
/// which the capture goes on.
const WRONG_THREAD: CuResult = 908;

/// The end of a creation needs only one thing from its beginning: the graph into which the call is
/// captured.
impl Intercepted<Option<Key>> for Creates {
    unsafe fn began(&self, listener: &Listener<'_>, captured: &mut Option<Key>) {
        // SAFETY: the caller upholds the contract.
        *captured = unsafe { listener.captured(self.stream.or(self.loses_capture())) };
    }

    unsafe fn ended(&self, listener: &Listener<'_>, captured: &Option<Key>, error: CuResult) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match error {
                0 => listener.created(self, *captured),
                _ => listener.creation_failed(self, error),
            }
        }
    }
}

impl Creates {
    /// Returns the stream whose capture this call ends without returning the graph, because the
    /// program passed a null pointer for the graph. The graph exists nevertheless, and nothing can
    /// destroy it.
    fn loses_capture(&self) -> Option<u64> {
        self.ends_capture.filter(|_| self.identity.is_null())
    }
}

impl Listener<'_> {
    /// # Safety
    ///
    /// The call that `create` describes has returned `error`.
    #[cold]
    unsafe fn creation_failed(&self, create: &Creates, error: CuResult) {
        if let Some(stream) = create.ends_capture
            && error != WRONG_THREAD
        {
            self.capture_ended(stream, None);
        }
        self.report(Event::CreationFailed {
            kind: create.kind,
            // SAFETY: the caller upholds the contract.
            bytes: unsafe { self.bytes(create, 0, error) },
            error,
            caller: caller(),
        });
    }

    /// # Safety
    ///
    /// The call that `create` describes has returned success. If it was captured, `captured` is the
    /// graph into which it was captured.
    unsafe fn created(&self, create: &Creates, captured: Option<Key>) {
        // `None` means that nothing was created: the caller passed null for the result, or the
        // driver returned null. SAFETY: the call has returned success.
        let made = unsafe { create.identity.read() }.and_then(|it| key(create.space, it));
        let (made, captured) = match create.loses_capture() {
            Some(_) => (captured.filter(|it| it.space == create.space), None),
            None => (made, captured),
        };
        let added_to = match create.ends_capture {
            Some(stream) => self.capture_ended(stream, made),
            None => 0,
        };
        // A graph to which a capture added nodes existed before, so it already has a record.
        let Some(key) = made.filter(|key| key.value() != added_to) else {
            return;
        };
        if matches!(create.kind, Kind::Context | Kind::GreenContext) {
            self.context_created(create, key);
        }
        let is_copy = create.copies.is_some() || create.ends_capture.is_some();
        if create.kind == Kind::GraphHandle && !is_copy {
            // An earlier graph with this handle may have ended without a call, as the graph of a
            // conditional node does.
            self.nodes_moved(key, None);
        }
        let context = self.current();
        let key = numbered::created(key, context.owner);
        if create.may_answer_again && self.ledger.get(&key).is_some() {
            return;
        }
        let elsewhere = self.place_elsewhere(create, key.value(), &context);
        // SAFETY: the call that `create` describes was successful.
        let made = unsafe { self.creation(create, key, &context, elsewhere) };
        if let Some(graph) = captured {
            self.report(Event::GraphAllocates { graph, made });
            return;
        }
        self.report(Event::Created(made));
        if create.references > 1 {
            let count = create.references - 1;
            self.report(Event::Retained { key, count });
        }
        if let Some((from, flags)) = create.copies {
            // SAFETY: the call was successful, so the driver has read its flags.
            let flags = unsafe { flags.read() }.unwrap_or(0);
            self.report(Event::GraphCopied {
                from: named(Kind::GraphHandle, from),
                to: key,
                auto_free: flags & AUTO_FREE != 0,
            });
        }
    }

    /// Records that the context with this key was created.
    #[cold]
    fn context_created(&self, create: &Creates, key: Key) {
        let At::Device(device) = create.place else {
            return;
        };
        match create.kind {
            Kind::GreenContext => {
                if let Some(primary) = self.contexts.green_created(key.value(), place_of(device)) {
                    self.report(primary);
                }
            }
            _ => self.contexts.created(key.value(), place_of(device), false),
        }
    }

    /// Returns the place of stream-ordered memory whose stream or pool may belong to a device other
    /// than that of the current context; `None` if the place follows from the current context or
    /// from the record of the pool.
    fn place_elsewhere(&self, create: &Creates, address: u64, current: &Context) -> Option<Place> {
        let record = |kind, handle| self.ledger.get(&named(kind, handle));
        // The driver is not asked while a stream is being captured: it refuses many calls then, and
        // the documentation does not say that this one is allowed.
        let asked = || match captures::active() {
            true => None,
            false => self.driver?.place_at(address).ok(),
        };
        match (create.kind, create.pool, create.stream) {
            (Kind::StreamOrdered, 0, Some(stream)) => {
                let is_elsewhere = current.handle == 0 || self.contexts.are_of_several_devices();
                let is_meant = stream > PER_THREAD && is_elsewhere;
                is_meant.then(|| {
                    record(Kind::Stream, stream)
                        .map(|it| it.made.place)
                        .or_else(asked)
                })?
            }
            (Kind::StreamOrdered, pool, _) if record(Kind::Pool, pool).is_none() => asked(),
            _ => None,
        }
    }

    /// Returns the creation of the resource with this key. If `elsewhere` is given, it is the
    /// resource's place.
    ///
    /// # Safety
    ///
    /// The call that `create` describes has returned success.
    #[inline]
    unsafe fn creation(
        &self,
        create: &Creates,
        key: Key,
        current: &Context,
        elsewhere: Option<Place>,
    ) -> Creation {
        let place = match create.place {
            At::Context => Place::UNKNOWN,
            At::Host => Place::HOST,
            At::Device(device) => place_of(device),
            At::Green(green) => {
                let green = self.ledger.get(&named(Kind::GreenContext, green));
                green.map_or(Place::UNKNOWN, |green| green.made.place)
            }
            At::Properties(properties) => {
                // SAFETY: the call was successful, so the driver has read the properties.
                let properties = unsafe { properties.read() };
                properties.map_or(Place::UNKNOWN, graphs::location)
            }
        };
        // A new context does not belong to the context that was current when it was created, and
        // must not end with that context.
        let is_another = create.kind == Kind::Context && current.handle != key.value();
        // A stream that was created in a green context does not end with any context. Other
        // resources end with the primary context that the green one is part of.
        let is_of_green = create.kind == Kind::Stream && current.green != 0;
        let place = elsewhere.unwrap_or(place);
        // Memory from an explicit pool is at the place of the pool, which the ledger knows.
        let is_in_context = place == Place::UNKNOWN && create.pool == 0;
        Creation {
            key,
            kind: create.kind,
            layer: Layer::DRIVER,
            place: if is_in_context { current.place } else { place },
            // SAFETY: the call that `create` describes was successful.
            bytes: unsafe { self.bytes(create, key.value(), 0) },
            context: if is_another || is_of_green || create.outlives_context {
                ContextUid::default()
            } else {
                current.owner
            },
            stream: create.stream.unwrap_or(0),
            pool: create.pool,
            caller: caller(),
        }
    }

    /// Returns the size of the resource that a call created at `address` or, if its `error` is not
    /// 0, failed to create.
    ///
    /// # Safety
    ///
    /// `create` is built from that call.
    unsafe fn bytes(&self, create: &Creates, address: u64, error: CuResult) -> u64 {
        // SAFETY: the caller upholds the contract. Results are read only after success, and
        // descriptors only after the driver has read them.
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
}
