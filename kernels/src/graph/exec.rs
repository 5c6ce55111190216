//! Graphs: as captured, and in the form that can be replayed.

use std::fmt;

use super::capture::{CaptureSession, Captured, CapturedWork};
use super::held::{PoolUse, UsedStorages};
use super::operation::Operation;
use crate::capturing::forbid;
use crate::cuda::ExecutableGraph;
use crate::device::{Backend, Device};
use crate::error::Result;

/// Recorded work; see the [module](crate::graph). Dropping it leaves only cached memory.
#[derive(Debug)]
pub struct Graph(Captured);

/// A graph that can be replayed. Dropping it leaves only cached memory; a replay in progress still
/// finishes.
#[derive(Debug)]
pub struct ExecGraph {
    // Fields are dropped in this order: each may use those after it.
    work: ExecutableWork,
    storages: UsedStorages,
    pool: PoolUse,
}

enum ExecutableWork {
    Cuda(ExecutableGraph),
    Embedded(Vec<Operation>),
}

impl Graph {
    /// Runs a closure and records the work that it submits to the device instead of executing it.
    /// The contents of the returned tensors are meaningless before the first replay.
    ///
    /// The same work must have been done once before without a capture, because kernels are loaded
    /// and library handles are created at their first use, which is not possible during a capture.
    ///
    /// # Errors
    ///
    /// Returns the closure's error, or the error of the first operation in the closure that failed
    /// or cannot be captured, even if the closure continued. If the device has no room left,
    /// returns [`Error::Capture`](crate::Error::Capture), because the cache cannot be emptied
    /// during a capture. Nothing is recorded then, and allocated memory is returned to the cache.
    /// If another thread synchronises the whole context at the same time, both calls fail.
    pub fn capture<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let session = CaptureSession::begin(device)?;
        let made = work();
        match (session.end(), made) {
            (Ok(captured), Ok(made)) => Ok((Self(captured), made)),
            (Ok(_), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    /// Prepares the graph for replays.
    ///
    /// # Errors
    ///
    /// Returns an error if the driver fails, or if this thread is capturing work of the device.
    pub fn instantiate(self) -> Result<ExecGraph> {
        let Captured {
            work,
            storages,
            pool,
        } = self.0;
        forbid(
            pool.device().id(),
            "instantiating a graph",
            "do it after the capture",
        )?;
        let work = match work {
            CapturedWork::Cuda(graph) => ExecutableWork::Cuda(graph.instantiate()?),
            CapturedWork::Embedded(operations) => ExecutableWork::Embedded(operations),
        };
        Ok(ExecGraph {
            work,
            storages,
            pool,
        })
    }
}

impl ExecGraph {
    /// Executes the recorded work again, after all work that was submitted to the device before.
    ///
    /// # Errors
    ///
    /// Returns an error if the device fails, or if this thread is capturing work of the device.
    pub fn replay(&mut self) -> Result<()> {
        let device = self.pool.device();
        forbid(device.id(), "a replay", "capture the work itself")?;
        match (&mut self.work, device.backend()) {
            (ExecutableWork::Cuda(graph), Backend::Cuda(cuda)) => graph.launch(cuda.stream())?,
            (ExecutableWork::Embedded(operations), Backend::Embedded(embedded)) => {
                for operation in operations {
                    operation.run(embedded)?;
                }
            }
            _ => unreachable!("a graph belongs to the device that it was captured on"),
        }
        self.storages.bump_versions();
        Ok(())
    }
}

impl fmt::Debug for ExecutableWork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(graph) => graph.fmt(out),
            Self::Embedded(operations) => write!(out, "{} operations", operations.len()),
        }
    }
}
