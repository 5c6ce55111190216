//! Memory lent to cuBLAS.

use crate::capturing;
use crate::cuda::Workspace;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::Buffer;

/// Memory lent to a device's cuBLAS as its workspace, until it is dropped.
///
/// Without a workspace, cuBLAS picks algorithms that need none, and the allocator's figures count
/// only the tensors. The workspace comes from the device's caching allocator and is counted there.
/// PyTorch lends 32 MiB on a large GPU.
#[derive(Debug)]
pub struct BlasWorkspace {
    buffer: Buffer,
}

impl BlasWorkspace {
    /// Allocates `bytes` from the device's allocator and lends them to the device's cuBLAS, which
    /// uses the workspace that was lent last.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is not a CUDA device or is out of memory, if cuBLAS cannot be
    /// used, or if this thread is capturing work of the device.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        let cuda = device.as_cuda().ok_or_else(|| Error::Unavailable {
            device: device.to_string(),
            detail: "it has no cuBLAS; a workspace is for CUDA devices".into(),
        })?;
        capturing::forbid(
            device.id(),
            "lending a workspace",
            "captured products use no workspace",
        )?;
        let buffer = Buffer::new(device, bytes)?;
        let address = buffer.address();
        cuda.with_blas(|blas| blas.lend(Workspace { address, bytes }))?;
        Ok(Self { buffer })
    }
}

impl Drop for BlasWorkspace {
    fn drop(&mut self) {
        if let Some(cuda) = self.buffer.device().as_cuda() {
            let taken_back = cuda.with_blas(|blas| blas.take_back(self.buffer.address()));
            if let Err(Error::Cuda(error)) = taken_back {
                cuda.context().record_err(Err::<(), _>(error));
            }
        }
    }
}
