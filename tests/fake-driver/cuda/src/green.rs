//! Green contexts. A green context stands for a part of a device. It has its own handle, and
//! retains the primary context.
//!
//! Resources that are created while a green context is current belong to the primary context. When
//! a green context is created or destroyed, the primary context may be created or destroyed with
//! it, which is reported. No other context is created or destroyed.

use crate::context;
use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::primary;
use crate::state::{Driver, driver};
use crate::stream::{self, Stream};
use crate::user_object;

#[derive(Debug)]
pub(crate) struct Green {
    /// The handle by which the green context can be made current.
    context: Handle,
    device: usize,
}

/// `CU_GREEN_CTX_DEFAULT_STREAM`, which is mandatory.
const DEFAULT_STREAM: u32 = 1;
/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSORS: u32 = 1;
/// The number of multiprocessors of an H200.
const COUNT: u32 = 132;
/// The minimum size of a part, which is also the granularity.
const LEAST: u32 = 8;

/// `CUdevResource`: 144 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    kind: u32,
    padding: [u8; 92],
    count: u32,
    least: u32,
    step: u32,
    rest: [u32; 7],
    next: u64,
}

impl Resource {
    fn of(count: u32) -> Self {
        Self {
            kind: MULTIPROCESSORS,
            padding: [0; 92],
            count,
            least: LEAST,
            step: LEAST,
            rest: [0; 7],
            next: 0,
        }
    }
}

/// The target of every resource descriptor. The selection of multiprocessors makes no difference
/// here.
static DESCRIPTOR: u64 = 0;

impl Driver {
    fn green(&self, green: Handle) -> Result<&Green, Error> {
        let found = self.greens.get(green).ok_or(Error::INVALID_CONTEXT)?;
        self.context(found.context).map(|_| found)
    }

    /// Whether a green context holds the primary context of a device.
    pub(crate) fn has_green(&self, device: usize) -> bool {
        self.greens.iter().any(|(_, green)| green.device == device)
    }

    /// Ends a green context and the captures on its streams. The streams stay. Returns the device.
    fn destroy_green(&mut self, green: Handle) -> Result<usize, Error> {
        let green = self.greens.remove(green).ok_or(Error::INVALID_CONTEXT)?;
        self.contexts.remove(green.context);
        let of_green = |(_, stream): &(Handle, &Stream)| stream.green == Some(green.context);
        let captures: Vec<_> = self
            .streams
            .iter()
            .filter(of_green)
            .filter_map(|(handle, stream)| Some((handle, stream.capture?)))
            .collect();
        for (stream, capture) in captures {
            self.abandon(capture, stream);
        }
        let streams = self.streams.values_mut();
        for stream in streams.filter(|stream| stream.green == Some(green.context)) {
            stream.green = Some(0);
        }
        Ok(green.device)
    }
}

fn create(green_out: Out<Handle>, descriptor: u64, device: i32, flags: u32) -> Result<(), Error> {
    if green_out.is_null() || descriptor == 0 || flags != DEFAULT_STREAM {
        return Err(Error::INVALID_VALUE);
    }
    let base = primary::retain(device)?;
    let mut driver = driver()?;
    let device = driver.device(device)?;
    let view = context::view_of(&mut driver, base)?;
    let context = driver.contexts.insert(view);
    green_out.put(driver.greens.insert(Green { context, device }))
}

api! {
    cuDeviceGetDevResource fn(device: i32, resource: Out<Resource>, kind: u32) {
        driver()?.device(device)?;
        if kind != MULTIPROCESSORS {
            return Err(Error::NOT_SUPPORTED);
        }
        resource.put(Resource::of(COUNT))
    }

    cuDevSmResourceSplitByCount fn(
        parts: Out<Resource>, count: Out<u32>, whole: In<Resource>, remainder: Out<Resource>, _flags: u32, least: u32,
    ) {
        let whole = whole.get()?.count;
        let size = least.max(LEAST).next_multiple_of(LEAST);
        let wanted = if parts.is_null() { u32::MAX } else { count.value()? };
        let number = wanted.min(whole / size);
        if !parts.is_null() {
            (0..number).for_each(|index| parts.at(index as usize).offer(Resource::of(size)));
        }
        remainder.offer(Resource::of(whole - number * size));
        count.put(number)
    }

    cuDevResourceGenerateDesc fn(descriptor: Out<*const u64>, resources: In<Resource>, count: u32) {
        if count == 0 || resources.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        if resources.get()?.kind != MULTIPROCESSORS {
            return Err(Error::INVALID_RESOURCE_CONFIGURATION);
        }
        descriptor.put(&raw const DESCRIPTOR)
    }

    cuGreenCtxCreate fn(green: Out<Handle>, descriptor: u64, device: i32, flags: u32) {
        create(green, descriptor, device, flags)
    }

    cuGreenCtxDestroy fn(green: Handle) {
        let device = driver()?.destroy_green(green)?;
        user_object::run_destructors();
        primary::release(device as i32)
    }

    cuCtxFromGreenCtx fn(context: Out<Handle>, green: Handle) {
        context.put(driver()?.green(green)?.context)
    }

    cuGreenCtxStreamCreate fn(stream: Out<Handle>, green: Handle, flags: u32, priority: i32) {
        let context = driver()?.green(green)?.context;
        // `CU_STREAM_NON_BLOCKING` must be given.
        if flags != 1 {
            return Err(Error::INVALID_VALUE);
        }
        stream::create(stream, Some(context), flags, priority)
    }

    cuStreamGetGreenCtx fn(stream: Handle, green: Out<Handle>) {
        let driver = driver()?;
        driver.context_of_stream(stream)?;
        let context = driver.streams.get(stream).and_then(|stream| stream.green);
        let found = driver.greens.iter().find(|(_, green)| Some(green.context) == context);
        green.put(found.map_or(0, |(handle, _)| handle))
    }
}
