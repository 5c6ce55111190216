//! A device: where tensors live and operations run.

use std::fmt;
use std::sync::Arc;

use crate::cuda::{Cuda, CudaConfig, DriverMemory};
use crate::embedded::{Embedded, EmbeddedConfig};
use crate::error::Result;
use crate::graph;
use crate::memory::{Allocator, Policy, Storage, StreamId};
use crate::watch;

/// A GPU, or the embedded device that stands in for one. Clones are the same device.
///
/// Each call of [`Device::cuda`] or [`Device::embedded`] makes a device with an allocator of its
/// own. Tensors keep theirs alive; when the last holder goes, everything returns to the driver.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    // Dropped in this order: segments go back before their context goes.
    allocator: Arc<Allocator>,
    backend: Owned,
}

enum Owned {
    Embedded(Embedded),
    Cuda(Box<Cuda>),
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
        let embedded = Embedded::new(&config)?;
        let storage = Box::new(Arc::clone(embedded.memory()));
        Ok(Self::new(Owned::Embedded(embedded), storage, config.policy))
    }

    /// The CUDA device with this ordinal, by its primary context.
    ///
    /// # Errors
    ///
    /// When there is no driver or no such device.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Self::cuda_with(CudaConfig {
            ordinal,
            ..CudaConfig::default()
        })
    }

    /// A CUDA device, by its primary context.
    ///
    /// # Errors
    ///
    /// As [`Self::cuda`].
    pub fn cuda_with(config: CudaConfig) -> Result<Self> {
        let cuda = Cuda::new(config.ordinal)?;
        let storage = Box::new(DriverMemory::new(Arc::clone(cuda.context())));
        Ok(Self::new(
            Owned::Cuda(Box::new(cuda)),
            storage,
            config.policy,
        ))
    }

    fn new(backend: Owned, storage: Box<dyn Storage>, policy: Policy) -> Self {
        let name = backend.to_string();
        let allocator = Arc::new(Allocator::new(name, storage, policy));
        watch::register(&allocator);
        Self(Arc::new(Inner { allocator, backend }))
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.0.allocator
    }

    /// The stream that its operations run on.
    pub(crate) fn stream_id(&self) -> StreamId {
        match self.backend() {
            Backend::Embedded(_) => StreamId::default(),
            Backend::Cuda(cuda) => cuda.stream_id(),
        }
    }

    /// What it really is.
    #[must_use]
    pub fn backend(&self) -> Backend<'_> {
        match &self.0.backend {
            Owned::Embedded(embedded) => Backend::Embedded(embedded),
            Owned::Cuda(cuda) => Backend::Cuda(cuda),
        }
    }

    /// The embedded device, if it is one.
    #[must_use]
    pub fn as_embedded(&self) -> Option<&Embedded> {
        match self.backend() {
            Backend::Embedded(embedded) => Some(embedded),
            Backend::Cuda(_) => None,
        }
    }

    /// The CUDA device, if it is one.
    #[must_use]
    pub fn as_cuda(&self) -> Option<&Cuda> {
        match self.backend() {
            Backend::Embedded(_) => None,
            Backend::Cuda(cuda) => Some(cuda),
        }
    }

    /// Waits until everything asked of the device is done.
    ///
    /// # Errors
    ///
    /// What the work itself ended with; else the first error of a free since the last call, which
    /// had nobody to return it to. In a capture of the device, which cannot wait.
    pub fn synchronize(&self) -> Result<()> {
        graph::forbid(
            self,
            "waiting for the device",
            "nothing has been asked of it yet; wait after a replay",
        )?;
        if let Backend::Cuda(cuda) = self.backend() {
            cuda.synchronize()?;
        }
        self.allocator().lock().take_parked()
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
        self.0.backend.fmt(out)
    }
}

impl fmt::Display for Owned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(embedded) => write!(out, "embedded:{}", embedded.ordinal()),
            Self::Cuda(cuda) => write!(out, "cuda:{}", cuda.ordinal()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Device({self})")
    }
}
