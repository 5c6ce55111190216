//! The capture that a thread is in.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, Weak};

use crate::cuda::StreamCapture;
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::memory::{Policy, PoolId};
use crate::tensor::{Operand, Storage};

use super::exec::{Graph, Work};
use super::record::Operation;

thread_local! {
    /// Whether there is one: all that a thread without a capture pays.
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
    static CAPTURE: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// What has been recorded so far.
struct Capture {
    pool: PoolUse,
    recording: Recording,
    tensors: Tensors,
    /// The first thing that went wrong, whatever the closure made of it.
    failure: Option<Error>,
}

/// Where a device's work goes.
pub(super) enum Recording {
    Cuda(StreamCapture),
    Embedded(Vec<Operation>),
}

/// What a graph has to do with tensors beyond its own pool.
#[derive(Default)]
pub(super) struct Tensors {
    /// Used and not taken by the capture: alive as long as the graph.
    held: Vec<Arc<Storage>>,
    /// Written at each replay.
    written: Vec<Weak<Storage>>,
}

impl Tensors {
    /// After a replay: graphs of gradients that saved the old content notice.
    pub(super) fn bump_versions(&self) {
        for storage in self.written.iter().filter_map(Weak::upgrade) {
            storage.bump_version();
        }
    }
}

impl fmt::Debug for Tensors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} held, {} written",
            self.held.len(),
            self.written.len()
        )
    }
}

/// A private pool, for as long as something may replay what uses it.
#[derive(Debug)]
pub(super) struct PoolUse {
    device: Device,
    id: PoolId,
}

impl PoolUse {
    fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            id: device.allocator().lock().open_pool(),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for PoolUse {
    fn drop(&mut self) {
        self.device.allocator().lock().close_pool(self.id);
    }
}

/// The capture of this thread, from its begin to its end: also on the way out of a panic.
#[derive(Debug)]
pub(super) struct Session(());

impl Session {
    pub(super) fn begin(device: &Device) -> Result<Self> {
        if is_capturing() {
            return refuse("a capture", "this thread is in one already; end that first");
        }
        if device.allocator().policy() == Policy::Direct {
            return refuse(
                "work on a device without a cache",
                "its graph needs memory of its own; make the device with `Policy::Caching`",
            );
        }
        let recording = match device.backend() {
            Backend::Embedded(_) => Recording::Embedded(Vec::new()),
            Backend::Cuda(cuda) => Recording::Cuda(StreamCapture::begin(cuda)?),
        };
        let capture = Capture {
            pool: PoolUse::new(device),
            recording,
            tensors: Tensors::default(),
            failure: None,
        };
        CAPTURE.set(Some(capture));
        CAPTURING.set(true);
        Ok(Self(()))
    }

    /// Ends it. The first failure inside is the answer, if there was one.
    pub(super) fn end(self) -> Result<Graph> {
        let mut capture = take().expect("a session has one until it ends");
        let work = match capture.recording {
            Recording::Embedded(operations) => Ok(Work::Embedded(operations)),
            Recording::Cuda(stream) => stream.end().map(Work::Cuda),
        };
        if let Some(failure) = capture.failure {
            return Err(failure);
        }
        // What the closure has dropped nobody sees any more.
        let written = &mut capture.tensors.written;
        written.retain(|storage| storage.strong_count() > 0);
        Ok(Graph::new(work?, capture.tensors, capture.pool))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(capture) = take()
            && let Recording::Cuda(stream) = capture.recording
        {
            // What it recorded goes at once; the panic that led here is told.
            drop(stream.end());
        }
    }
}

fn take() -> Option<Capture> {
    CAPTURING.set(false);
    CAPTURE.take()
}

/// Whether this thread is in a capture.
pub(crate) fn is_capturing() -> bool {
    CAPTURING.get()
}

/// The pool that serves this thread's requests at a device; none for the shared one.
pub(crate) fn pool_for(device: &Device) -> Option<PoolId> {
    if !is_capturing() {
        return None;
    }
    CAPTURE.with_borrow(|capture| {
        let pool = &capture.as_ref()?.pool;
        (pool.device == *device).then_some(pool.id)
    })
}

/// Refuses what a capture of the device cannot record; outside one, everything is allowed.
///
/// # Errors
///
/// In a capture of the device, which fails with it.
pub(crate) fn forbid(device: &Device, what: &str, why: &str) -> Result<()> {
    match pool_for(device) {
        None => Ok(()),
        Some(_) => refuse(what, why),
    }
}

/// Refuses what no capture can record.
///
/// # Errors
///
/// Always, and this thread's capture fails with it.
pub(super) fn refuse<T>(what: &str, why: &str) -> Result<T> {
    note(Err(refusal(what, why)))
}

/// Lets the capture of this thread fail with an error, whatever becomes of that in the closure.
pub(crate) fn note<T>(outcome: Result<T>) -> Result<T> {
    if let Err(error) = &outcome {
        CAPTURE.with_borrow_mut(|capture| {
            if let Some(capture) = capture {
                capture.failure.get_or_insert_with(|| error.clone());
            }
        });
    }
    outcome
}

/// Notes what an operation uses, and gives what records it.
pub(super) fn with_recording<T>(
    reads: &[Operand<'_>],
    writes: &[Operand<'_>],
    act: impl FnOnce(PoolId, &mut Recording) -> T,
) -> Result<(Device, T)> {
    CAPTURE.with_borrow_mut(|capture| {
        let capture = capture.as_mut().expect("operations are recorded in one");
        for operand in reads.iter().chain(writes) {
            let storage = operand.storage;
            if storage.device() != &capture.pool.device {
                let what = format!("work on {}", storage.device());
                let why = format!("the capture is one of {}", capture.pool.device);
                return Err(refusal(&what, &why));
            }
            if storage.pool() != Some(capture.pool.id) {
                add(&mut capture.tensors.held, storage, Arc::ptr_eq);
            }
        }
        for operand in writes {
            let written = Arc::downgrade(operand.storage);
            add(&mut capture.tensors.written, &written, Weak::ptr_eq);
        }
        let made = act(capture.pool.id, &mut capture.recording);
        Ok((capture.pool.device.clone(), made))
    })
}

fn add<T: Clone>(list: &mut Vec<T>, item: &T, same: impl Fn(&T, &T) -> bool) {
    if !list.iter().any(|other| same(other, item)) {
        list.push(item.clone());
    }
}

fn refusal(what: &str, why: &str) -> Error {
    Error::Capture {
        detail: format!("{what} cannot be captured: {why}"),
    }
}
