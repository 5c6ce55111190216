//! A capture by one thread, from its beginning to its end.

use std::cell::RefCell;
use std::fmt;

use super::held::{PoolUse, UsedStorages};
use super::operation::Operation;
use crate::allocator::{Policy, PoolId};
use crate::capturing::{self, is_capturing, refusal, refuse};
use crate::compute::Operand;
use crate::cuda::{CapturedGraph, StreamCapture};
use crate::device::{Backend, Device};
use crate::error::{Error, Result};

thread_local! {
    static CAPTURE: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// The work that this thread has recorded so far.
struct Capture {
    recording: Recording,
    storages: UsedStorages,
    pool: PoolUse,
}

/// The recorder of a device's work.
pub(super) enum Recording {
    Cuda(StreamCapture),
    Embedded(Vec<Operation>),
}

/// The result of a capture. Its fields are dropped in this order: each may use those after it.
#[derive(Debug)]
pub(super) struct Captured {
    pub(super) work: CapturedWork,
    pub(super) storages: UsedStorages,
    pub(super) pool: PoolUse,
}

/// The recorded work of a device.
pub(super) enum CapturedWork {
    Cuda(CapturedGraph),
    Embedded(Vec<Operation>),
}

impl fmt::Debug for CapturedWork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(graph) => graph.fmt(out),
            Self::Embedded(operations) => write!(out, "{} operations", operations.len()),
        }
    }
}

/// The capture of this thread, which ends when this value is dropped, even by a panic.
#[derive(Debug)]
pub(super) struct CaptureSession(());

impl CaptureSession {
    pub(super) fn begin(device: &Device) -> Result<Self> {
        if is_capturing() {
            return capturing::note(Err(Error::Capture {
                detail: "this thread is already capturing a graph; end that capture first".into(),
            }));
        }
        if device.allocator().policy() == Policy::Direct {
            return refuse(
                "work on a device without a cache",
                "its graph needs memory of its own; create the device with `Policy::Caching`",
            );
        }
        let recording = match device.backend() {
            Backend::Embedded(_) => Recording::Embedded(Vec::new()),
            Backend::Cuda(cuda) => Recording::Cuda(StreamCapture::begin(cuda.context())?),
        };
        let pool = PoolUse::new(device);
        let id = pool.id();
        CAPTURE.set(Some(Capture {
            recording,
            storages: UsedStorages::default(),
            pool,
        }));
        capturing::begin(device.id(), id);
        Ok(Self(()))
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// Returns the first failure inside the capture, if there was one.
    pub(super) fn end(self) -> Result<Captured> {
        let (capture, failure) = take();
        let capture = capture.expect("a session has a capture until it ends");
        let work = match capture.recording {
            Recording::Embedded(operations) => Ok(CapturedWork::Embedded(operations)),
            Recording::Cuda(stream) => stream.end().map(CapturedWork::Cuda),
        };
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut storages = capture.storages;
        storages.forget_dropped();
        Ok(Captured {
            work: work?,
            storages,
            pool: capture.pool,
        })
    }
}

impl Drop for CaptureSession {
    fn drop(&mut self) {
        if let (Some(capture), _) = take()
            && let Recording::Cuda(stream) = capture.recording
        {
            // The recorded work is dropped. An error can be ignored, because the panic that led
            // here is reported anyway.
            drop(stream.end());
        }
    }
}

fn take() -> (Option<Capture>, Option<Error>) {
    let failure = capturing::end();
    (CAPTURE.take(), failure)
}

/// Records which storages an operation uses, then calls `act` to record the operation itself.
pub(super) fn with_recording<T>(
    reads: &[Operand<'_>],
    writes: &[Operand<'_>],
    act: impl FnOnce(PoolId, &mut Recording) -> T,
) -> Result<(Device, T)> {
    CAPTURE.with_borrow_mut(|capture| {
        let capture = capture.as_mut().expect("a capture is active");
        let (device, pool) = (capture.pool.device(), capture.pool.id());
        for operand in reads.iter().chain(writes) {
            if operand.storage.device() != device {
                let what = format!("work on {}", operand.storage.device());
                let why = format!("the capture is on {device}");
                return Err(refusal(&what, &why));
            }
        }
        capture.storages.note(reads, writes, pool);
        Ok((device.clone(), act(pool, &mut capture.recording)))
    })
}
