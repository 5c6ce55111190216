//! A device: where tensors live and operations run.

mod lifetime;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::lifetime::Handle;
pub(crate) use self::lifetime::OwnedBlock;

use crate::allocator::{Allocator, Policy, SegmentSource};
use crate::capturing;
use crate::cuda::{Cuda, CudaConfig};
use crate::device_id::DeviceId;
use crate::embedded::{Embedded, EmbeddedConfig};
use crate::error::Result;
use crate::probe;
use crate::stream::StreamId;

/// A GPU, or the embedded device that replaces one. Clones refer to the same device.
///
/// Each call to [`Device::cuda`] or [`Device::embedded`] creates a device with its own allocator.
/// Tensors keep the device alive. When its last holder is dropped, everything is returned to the
/// driver.
#[derive(Clone)]
pub struct Device(Handle);

struct DeviceState {
    id: DeviceId,
    // Fields are dropped in this order: segments are freed before their context.
    allocator: Arc<Allocator>,
    backend: OwnedBackend,
}

enum OwnedBackend {
    Embedded(Embedded),
    Cuda(Box<Cuda>),
}

/// The implementation of a device.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// An embedded device: host memory and the CPU.
    Embedded(&'a Embedded),
    /// A CUDA device.
    Cuda(&'a Cuda),
}

impl Device {
    /// Creates an embedded device with [`EmbeddedConfig::default`].
    ///
    /// # Errors
    ///
    /// See [`Self::embedded_with`].
    pub fn embedded() -> Result<Self> {
        Self::embedded_with(EmbeddedConfig::default())
    }

    /// Creates an embedded device with these settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the device's context does not fit into its capacity.
    pub fn embedded_with(config: EmbeddedConfig) -> Result<Self> {
        let id = DeviceId::unique();
        let embedded = Embedded::new(&config, id)?;
        let source = embedded.segment_source();
        let backend = OwnedBackend::Embedded(embedded);
        Ok(Self::new(id, backend, source, config.policy))
    }

    /// Creates the CUDA device with this ordinal, using its primary context.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no driver or no such device.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Self::cuda_with(CudaConfig {
            ordinal,
            ..CudaConfig::default()
        })
    }

    /// Creates a CUDA device with these settings, using its primary context.
    ///
    /// # Errors
    ///
    /// See [`Self::cuda`].
    pub fn cuda_with(config: CudaConfig) -> Result<Self> {
        let cuda = Cuda::new(config.ordinal)?;
        let source = cuda.segment_source();
        let backend = OwnedBackend::Cuda(Box::new(cuda));
        Ok(Self::new(
            DeviceId::unique(),
            backend,
            source,
            config.policy,
        ))
    }

    fn new(
        id: DeviceId,
        backend: OwnedBackend,
        source: Box<dyn SegmentSource>,
        policy: Policy,
    ) -> Self {
        let name = backend.to_string();
        let allocator = Arc::new(Allocator::new(name, source, policy));
        probe::register(&allocator);
        Self(Handle::new(DeviceState {
            id,
            allocator,
            backend,
        }))
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.0.state().id
    }

    pub(crate) fn allocator(&self) -> &Allocator {
        &self.0.state().allocator
    }

    /// The stream that the device's operations run on.
    pub(crate) fn stream_id(&self) -> StreamId {
        match self.backend() {
            Backend::Embedded(_) => StreamId::default(),
            Backend::Cuda(cuda) => cuda.stream_id(),
        }
    }

    /// The implementation of the device.
    #[must_use]
    pub fn backend(&self) -> Backend<'_> {
        match &self.0.state().backend {
            OwnedBackend::Embedded(embedded) => Backend::Embedded(embedded),
            OwnedBackend::Cuda(cuda) => Backend::Cuda(cuda),
        }
    }

    /// The embedded device, if this is one.
    #[must_use]
    pub fn as_embedded(&self) -> Option<&Embedded> {
        match self.backend() {
            Backend::Embedded(embedded) => Some(embedded),
            Backend::Cuda(_) => None,
        }
    }

    /// The CUDA device, if this is one.
    #[must_use]
    pub fn as_cuda(&self) -> Option<&Cuda> {
        match self.backend() {
            Backend::Embedded(_) => None,
            Backend::Cuda(cuda) => Some(cuda),
        }
    }

    /// Waits until all work submitted to the device is done.
    ///
    /// # Errors
    ///
    /// Returns an error if the work itself has failed, or if a free has failed since the last call,
    /// because a free cannot return an error. Also returns an error if this thread is capturing
    /// work of the device, because a capture cannot wait.
    pub fn synchronize(&self) -> Result<()> {
        capturing::forbid(
            self.id(),
            "waiting for the device",
            "no work has been submitted yet; wait after a replay",
        )?;
        if let Backend::Cuda(cuda) = self.backend() {
            cuda.synchronize()?;
        }
        self.allocator().lock().take_parked()
    }
}

/// Whether both are clones of the same device.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Device {}

/// The device's name, for example `cuda:0` or `embedded:0`.
impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.state().backend.fmt(out)
    }
}

impl fmt::Display for OwnedBackend {
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
