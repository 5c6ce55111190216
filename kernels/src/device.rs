//! A device: where tensors live and operations run.

use std::fmt;
use std::sync::Arc;

use crate::cuda::Cuda;
use crate::embedded::{Embedded, EmbeddedConfig};
use crate::error::Result;

/// A GPU, or the embedded device that stands in for one. Clones are the same device.
///
/// Each call of [`Device::cuda`] or [`Device::embedded`] makes a device with an allocator of its
/// own. Tensors keep theirs alive; when the last holder goes, everything returns to the driver.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Owned,
}

enum Owned {
    Embedded(Embedded),
    Cuda(Cuda),
}

/// What a device really is.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// Host memory and the CPU.
    Embedded(&'a Embedded),
    /// A CUDA device.
    Cuda(&'a Cuda),
}

impl Device {
    /// An embedded device as [`EmbeddedConfig::default`] describes it.
    ///
    /// # Errors
    ///
    /// As [`Self::embedded_with`].
    pub fn embedded() -> Result<Self> {
        Self::embedded_with(EmbeddedConfig::default())
    }

    /// An embedded device.
    ///
    /// # Errors
    ///
    /// When its context does not fit its capacity.
    pub fn embedded_with(config: EmbeddedConfig) -> Result<Self> {
        Ok(Self::new(Owned::Embedded(Embedded::new(config)?)))
    }

    /// The CUDA device with this ordinal, by its primary context.
    ///
    /// # Errors
    ///
    /// When there is no driver or no such device.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Ok(Self::new(Owned::Cuda(Cuda::new(ordinal)?)))
    }

    fn new(backend: Owned) -> Self {
        Self(Arc::new(Inner { backend }))
    }

    /// What it really is.
    #[must_use]
    pub fn backend(&self) -> Backend<'_> {
        match &self.0.backend {
            Owned::Embedded(embedded) => Backend::Embedded(embedded),
            Owned::Cuda(cuda) => Backend::Cuda(cuda),
        }
    }

    /// Waits until everything asked of the device is done.
    ///
    /// # Errors
    ///
    /// What the work itself ended with.
    pub fn synchronize(&self) -> Result<()> {
        match self.backend() {
            Backend::Embedded(_) => Ok(()),
            Backend::Cuda(cuda) => cuda.synchronize(),
        }
    }
}

/// Whether both are clones of one device.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Device {}

/// `cuda:0`, `embedded:0`.
impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.backend() {
            Backend::Embedded(embedded) => write!(out, "embedded:{}", embedded.ordinal()),
            Backend::Cuda(cuda) => write!(out, "cuda:{}", cuda.ordinal()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Device({self})")
    }
}
