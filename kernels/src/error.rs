//! The error type of the library.

use std::fmt;

use cudarc::cublas::result::CublasError;
use cudarc::curand::result::CurandError;
use cudarc::driver::{CudaContext, DriverError};

use crate::bytes::Bytes;

/// The result type of every fallible function of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The device is out of memory, or its limit does not allow the request.
    OutOfMemory(Box<OutOfMemory>),
    /// Incompatible shapes.
    Shape {
        /// The operation, for example `matmul`.
        operation: &'static str,
        /// The mismatch, including the shapes.
        detail: String,
    },
    /// An element type that the operation does not support.
    DType {
        /// The operation.
        operation: &'static str,
        /// The supported types and the given type.
        detail: String,
    },
    /// Operands on different devices.
    DeviceMismatch {
        /// The operation.
        operation: &'static str,
        /// The first operand's device.
        left: String,
        /// The second operand's device.
        right: String,
    },
    /// A value that the operation does not accept.
    Argument {
        /// The operation.
        operation: &'static str,
        /// The value, and why it is not accepted.
        detail: String,
    },
    /// A backward pass that is not possible.
    Gradient {
        /// The problem and its remedy.
        detail: String,
    },
    /// Work that cannot be captured into a graph.
    Capture {
        /// The work that cannot be captured, why, and what to do.
        detail: String,
    },
    /// A device that cannot be used here.
    Unavailable {
        /// The device, for example `cuda:0`.
        device: String,
        /// The reason.
        detail: String,
    },
    /// A call to an embedded device failed, as a test had requested.
    Fault {
        /// The call, for example `free`.
        call: &'static str,
    },
    /// A call to the CUDA driver failed.
    Cuda(DriverError),
    /// A call to cuBLAS failed.
    Cublas(CublasError),
    /// A call to cuRAND failed.
    Curand(CurandError),
    /// A kernel's source did not compile.
    Compile {
        /// The source file.
        source: &'static str,
        /// The compiler's messages.
        log: String,
    },
}

/// The figures of a failed request, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The device, for example `cuda:0`.
    pub device: String,
    /// The requested bytes.
    pub requested: usize,
    /// Bytes handed out by the allocator and not freed.
    pub allocated: usize,
    /// Bytes held by the allocator, handed out or cached.
    pub reserved: usize,
    /// The size of the device's memory.
    pub capacity: usize,
    /// The free memory on the device.
    pub free: usize,
    /// The limit that was set for the allocator, if any.
    pub limit: Option<usize>,
}

/// Rejects the creation of an engine whose library is not installed.
///
/// # Errors
///
/// Returns an error if the library is not present.
pub(crate) fn expect_library(name: &str, is_present: bool, context: &CudaContext) -> Result<()> {
    if is_present {
        return Ok(());
    }
    Err(Error::Unavailable {
        device: format!("cuda:{}", context.ordinal()),
        detail: format!("{name} was not found; install it or add its directory to LD_LIBRARY_PATH"),
    })
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(figures) => figures.fmt(out),
            Self::Shape { operation, detail }
            | Self::DType { operation, detail }
            | Self::Argument { operation, detail } => write!(out, "{operation}: {detail}"),
            Self::DeviceMismatch {
                operation,
                left,
                right,
            } => write!(
                out,
                "{operation}: operands are on {left} and {right}; move one with `to`"
            ),
            Self::Gradient { detail } => write!(out, "backward: {detail}"),
            Self::Capture { detail } => write!(out, "capture: {detail}"),
            Self::Unavailable { device, detail } => write!(out, "{device}: {detail}"),
            Self::Fault { call } => write!(out, "{call}: failed as requested"),
            Self::Cuda(error) => write!(out, "CUDA driver: {error}"),
            Self::Cublas(error) => write!(out, "cuBLAS: {error}"),
            Self::Curand(error) => write!(out, "cuRAND: {error}"),
            Self::Compile { source, log } => write!(out, "{source} does not compile: {log}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Cuda(error) => Some(error),
            Self::Cublas(error) => Some(error),
            Self::Curand(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |value: usize| Bytes(value as u64);
        let cached = self.reserved - self.allocated;
        write!(
            out,
            "out of memory on {}: {} requested, {} of {} free; \
             this allocator has {} reserved, of which {} allocated and {} cached",
            self.device,
            bytes(self.requested),
            bytes(self.free),
            bytes(self.capacity),
            bytes(self.reserved),
            bytes(self.allocated),
            bytes(cached),
        )?;
        if let Some(limit) = self.limit {
            write!(out, ", under a limit of {}", bytes(limit))?;
        }
        let over_limit = |limit| self.reserved.saturating_add(self.requested) > limit;
        // The cache was emptied before the request failed, so only parts of segments and the
        // segments of graphs remain in it.
        if cached >= self.requested {
            out.write_str(
                "; no cached part can serve the request: `memory::snapshot` shows which blocks pin \
                 their segments, and which segments belong to a graph",
            )
        } else if self.limit.is_some_and(over_limit) && self.requested <= self.free {
            out.write_str("; drop what is no longer needed, or raise the limit")
        } else {
            out.write_str("; drop what is no longer needed, or use a smaller batch")
        }
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::Cuda(error)
    }
}

impl From<CublasError> for Error {
    fn from(error: CublasError) -> Self {
        Self::Cublas(error)
    }
}

impl From<CurandError> for Error {
    fn from(error: CurandError) -> Self {
        Self::Curand(error)
    }
}
