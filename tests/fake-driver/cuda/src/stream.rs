//! Streams. Work completes when it is submitted, so a stream is only an identity with a priority
//! and possibly a capture.

use std::time::Instant;

use crate::capture;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::graph::Node;
use crate::handle::Handle;
use crate::host_call::{HostCall, HostFunction};
use crate::state::{Driver, driver};
use crate::user_object;

/// A created stream. The default streams, handles 0 to 2, have no object.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Handle,
    pub(crate) capture: Option<u64>,
    /// The green context that the stream belongs to, as the handle that can be made current; 0 if
    /// that context was destroyed.
    pub(crate) green: Option<Handle>,
    flags: u32,
    priority: i32,
}

/// Whether a handle is that of a default stream, legacy or per-thread.
pub(crate) fn is_default(stream: Handle) -> bool {
    stream <= 2
}

impl Driver {
    /// Returns the context that a stream belongs to. Fails if the context is broken.
    pub(crate) fn context_of_stream(&self, stream: Handle) -> Result<Handle, Error> {
        if is_default(stream) {
            return self.current_handle();
        }
        let found = self.streams.get(stream).ok_or(Error::INVALID_HANDLE)?;
        // A stream whose green context was destroyed stays, and every call with it fails.
        if found.green == Some(0) {
            return Err(Error::CONTEXT_IS_DESTROYED);
        }
        self.healthy(found.context).map(|_| found.context)
    }

    pub(crate) fn device_of_stream(&self, stream: Handle) -> Result<usize, Error> {
        let context = self.context_of_stream(stream)?;
        Ok(self
            .contexts
            .get(context)
            .expect("it was just found")
            .device)
    }
}

/// Creates a stream, in a green context or in the current one.
pub(crate) fn create(
    stream_out: Out<Handle>,
    green: Option<Handle>,
    flags: u32,
    priority: i32,
) -> Result<(), Error> {
    let mut driver = driver()?;
    let green = green.or_else(|| driver.current_green());
    let context = match green {
        Some(green) => driver.owner(green)?,
        None => driver.current_handle()?,
    };
    if stream_out.is_null() || flags > 1 {
        return Err(Error::INVALID_VALUE);
    }
    let priority = priority.clamp(-5, 0);
    stream_out.put(driver.streams.insert(Stream {
        context,
        capture: None,
        green,
        flags,
        priority,
    }))
}

fn destroy(stream: Handle) -> Result<(), Error> {
    if is_default(stream) {
        return Err(Error::INVALID_HANDLE);
    }
    {
        let mut driver = driver()?;
        driver.context_of_stream(stream)?;
        let destroyed = driver.streams.remove(stream).ok_or(Error::INVALID_HANDLE)?;
        if let Some(capture) = destroyed.capture {
            driver.abandon(capture, stream);
        }
    }
    user_object::run_destructors();
    Ok(())
}

fn property<T: Copy>(
    stream: Handle,
    out: Out<T>,
    default: T,
    of: impl Fn(&Stream) -> T,
) -> Result<(), Error> {
    let driver = driver()?;
    driver.context_of_stream(stream)?;
    out.put(driver.streams.get(stream).map_or(default, of))
}

api! {
    cuStreamCreate fn(stream: Out<Handle>, flags: u32) {
        create(stream, None, flags, 0)
    }

    cuStreamCreateWithPriority fn(stream: Out<Handle>, flags: u32, priority: i32) {
        create(stream, None, flags, priority)
    }

    cuStreamDestroy, cuStreamDestroy_v2 fn(stream: Handle) {
        destroy(stream)
    }

    cuStreamSynchronize, cuStreamSynchronize_ptsz fn(stream: Handle) {
        let mut driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.forbid_on_capturing(stream)?;
        driver.observe();
        Ok(())
    }

    cuStreamQuery, cuStreamQuery_ptsz fn(stream: Handle) {
        let mut driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.forbid_on_capturing(stream)
    }

    cuStreamGetCtx, cuStreamGetCtx_ptsz fn(stream: Handle, context: Out<Handle>) {
        let driver = driver()?;
        let of_stream = driver.context_of_stream(stream)?;
        let green = driver.streams.get(stream).and_then(|stream| stream.green);
        context.put(green.unwrap_or(of_stream))
    }

    cuStreamGetFlags, cuStreamGetFlags_ptsz fn(stream: Handle, flags: Out<u32>) {
        property(stream, flags, 0, |stream| stream.flags)
    }

    cuStreamGetPriority, cuStreamGetPriority_ptsz fn(stream: Handle, priority: Out<i32>) {
        property(stream, priority, 0, |stream| stream.priority)
    }

    cuStreamGetId, cuStreamGetId_ptsz fn(stream: Handle, id: Out<u64>) {
        property(stream, id, stream, |_| stream)
    }

    cuStreamGetDevice, cuStreamGetDevice_ptsz fn(stream: Handle, device: Out<i32>) {
        device.put(driver()?.device_of_stream(stream)? as i32)
    }

    cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz fn(stream: Handle, _address: u64, _size: usize, _flags: u32) {
        driver()?.context_of_stream(stream).map(drop)
    }

    cuStreamWaitEvent, cuStreamWaitEvent_ptsz fn(stream: Handle, event: Handle, _flags: u32) {
        let mut driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.join(stream, event)
    }

    cuEventRecord, cuEventRecord_ptsz fn(event: Handle, stream: Handle) {
        record(event, stream)
    }

    cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz fn(event: Handle, stream: Handle, _flags: u32) {
        record(event, stream)
    }

    cuLaunchHostFunc, cuLaunchHostFunc_ptsz fn(stream: Handle, function: HostFunction, data: u64) {
        driver()?.context_of_stream(stream)?;
        let call = HostCall { function, data };
        if !capture::add(stream, Node::Host(call))? {
            call.run();
        }
        Ok(())
    }
}

fn record(event: Handle, stream: Handle) -> Result<(), Error> {
    let mut driver = driver()?;
    let context = driver.context_of_stream(stream)?;
    let capture = driver.streams.get(stream).and_then(|stream| stream.capture);
    let event = driver.events.get_mut(event);
    let event = event.filter(|event| event.context == context);
    let event = event.ok_or(Error::INVALID_HANDLE)?;
    event.captured = capture.map(|capture| (capture, stream));
    if capture.is_none() {
        event.recorded = Some(Instant::now());
    }
    Ok(())
}
