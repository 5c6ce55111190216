//! Graphs: captured, and ready to be replayed.

use std::fmt;

use crate::cuda::{CapturedGraph, ExecutableGraph};
use crate::device::{Backend, Device};
use crate::error::Result;

use super::capture::{PoolUse, Session, Tensors, forbid};
use super::record::Operation;

/// Recorded work; see the [module](crate::graph). Dropped, it leaves only cached memory.
#[derive(Debug)]
pub struct Graph(Contents<Work>);

/// A graph that can be replayed. Dropped, it leaves only cached memory; a replay under way ends
/// all the same.
#[derive(Debug)]
pub struct ExecGraph(Contents<Exec>);

/// Dropped in this order: nothing that is left uses what goes.
#[derive(Debug)]
struct Contents<W> {
    work: W,
    tensors: Tensors,
    pool: PoolUse,
}

pub(super) enum Work {
    Cuda(CapturedGraph),
    Embedded(Vec<Operation>),
}

enum Exec {
    Cuda(ExecutableGraph),
    Embedded(Vec<Operation>),
}

impl Graph {
    /// Runs a closure and records what it asks of the device instead of doing it. What it returns
    /// has no content before the first replay.
    ///
    /// The work must have been done once before, without a capture: kernels are loaded and library
    /// handles made at their first use, which a capture refuses.
    ///
    /// # Errors
    ///
    /// What the closure returned, or the first thing in it that cannot be captured or failed,
    /// even where the closure went on; [`Error::Capture`](crate::Error::Capture) also where the
    /// device has no room left, for a capture cannot empty the cache. Then nothing is recorded,
    /// and what had been taken is cached memory. If another thread waits for the whole context in
    /// the meantime, both fail.
    pub fn capture<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let session = Session::begin(device)?;
        let made = work();
        match (session.end(), made) {
            (Ok(graph), Ok(made)) => Ok((graph, made)),
            (Ok(_), Err(error)) | (Err(error), _) => Err(error),
        }
    }

    pub(super) fn new(work: Work, tensors: Tensors, pool: PoolUse) -> Self {
        Self(Contents {
            work,
            tensors,
            pool,
        })
    }

    /// Makes it ready to be replayed.
    ///
    /// # Errors
    ///
    /// When the driver cannot, or this thread is in a capture of the device.
    pub fn instantiate(self) -> Result<ExecGraph> {
        let Contents {
            work,
            tensors,
            pool,
        } = self.0;
        forbid(
            pool.device(),
            "instantiating a graph",
            "do it after the capture",
        )?;
        let work = match work {
            Work::Cuda(graph) => Exec::Cuda(graph.instantiate()?),
            Work::Embedded(operations) => Exec::Embedded(operations),
        };
        Ok(ExecGraph(Contents {
            work,
            tensors,
            pool,
        }))
    }
}

impl ExecGraph {
    /// Does the recorded work once more, behind all that was asked of the device before.
    ///
    /// # Errors
    ///
    /// When the device fails, or this thread is in a capture of it.
    pub fn replay(&mut self) -> Result<()> {
        let Contents {
            work,
            tensors,
            pool,
        } = &mut self.0;
        forbid(pool.device(), "a replay", "capture the work itself")?;
        match (work, pool.device().backend()) {
            (Exec::Cuda(graph), Backend::Cuda(cuda)) => graph.launch(cuda)?,
            (Exec::Embedded(operations), Backend::Embedded(embedded)) => {
                for operation in operations {
                    operation.run(embedded)?;
                }
            }
            _ => unreachable!("a graph is of the device that it was captured on"),
        }
        tensors.bump_versions();
        Ok(())
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(graph) => graph.fmt(out),
            Self::Embedded(operations) => write!(out, "{} operations", operations.len()),
        }
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(graph) => graph.fmt(out),
            Self::Embedded(operations) => write!(out, "{} operations", operations.len()),
        }
    }
}
