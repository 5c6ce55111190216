//! Events. An event marks a moment in a stream, or a point in a capture.

use std::time::Instant;

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::state::{Driver, driver};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    pub(crate) recorded: Option<Instant>,
    /// The capture and the stream in which the event was last recorded.
    pub(crate) captured: Option<(u64, Handle)>,
    flags: u32,
}

impl Event {
    pub(crate) fn new(context: Handle, flags: u32) -> Self {
        Self {
            context,
            recorded: None,
            captured: None,
            flags,
        }
    }

    /// Whether the event was created with all of these flags.
    pub(crate) fn has_flags(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
}

impl Driver {
    /// Returns an event whose state may be queried: one that was not last recorded during a
    /// capture.
    fn settled_event(&self, handle: Handle) -> Result<&Event, Error> {
        let event = self.events.get(handle).ok_or(Error::INVALID_HANDLE)?;
        self.healthy(event.context)?;
        if event.captured.is_some() {
            Err(Error::CAPTURED_EVENT)
        } else {
            Ok(event)
        }
    }
}

fn elapsed(milliseconds: Out<f32>, start: Handle, end: Handle) -> Result<(), Error> {
    let driver = driver()?;
    let moment = |handle| {
        let event = driver.settled_event(handle)?;
        event
            .recorded
            .filter(|_| !event.has_flags(DISABLE_TIMING))
            .ok_or(Error::INVALID_HANDLE)
    };
    let (start, end): (Instant, Instant) = (moment(start)?, moment(end)?);
    milliseconds.put(end.saturating_duration_since(start).as_secs_f32() * 1e3)
}

api! {
    cuEventCreate fn(event: Out<Handle>, flags: u32) {
        let mut driver = driver()?;
        let context = driver.current_handle()?;
        if event.is_null() || flags > 7 {
            return Err(Error::INVALID_VALUE);
        }
        event.put(driver.events.insert(Event::new(context, flags)))
    }

    cuEventDestroy, cuEventDestroy_v2 fn(event: Handle) {
        let mut driver = driver()?;
        let context = driver.events.get(event).ok_or(Error::INVALID_HANDLE)?.context;
        driver.healthy(context)?;
        driver.events.remove(event);
        Ok(())
    }

    cuEventQuery fn(event: Handle) {
        driver()?.settled_event(event).map(drop)
    }

    cuEventSynchronize fn(event: Handle) {
        let mut driver = driver()?;
        driver.settled_event(event)?;
        driver.observe();
        Ok(())
    }

    cuEventElapsedTime, cuEventElapsedTime_v2 fn(milliseconds: Out<f32>, start: Handle, end: Handle) {
        elapsed(milliseconds, start, end)
    }
}
