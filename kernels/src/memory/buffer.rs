//! Owned bytes on a device.
#![expect(
    unsafe_code,
    reason = "hands out slices of memory that the allocator owns"
)]

use std::alloc::Layout;

use cudarc::driver::result;

use crate::device::{Backend, Device};
use crate::error::Result;

/// Bytes on a device, given back to its allocator when dropped.
///
/// Their first content is whatever the memory held before.
#[derive(Debug)]
pub struct Buffer {
    address: u64,
    bytes: usize,
    device: Device,
}

impl Buffer {
    /// Takes `bytes` from the device's allocator. No bytes take no memory: the address is 0.
    ///
    /// # Errors
    ///
    /// When the device has no room for them.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        let address = match device.backend() {
            _ if bytes == 0 => 0,
            // SAFETY: the layout's size is not 0.
            Backend::Embedded(_) => unsafe { std::alloc::alloc_zeroed(layout(bytes)) as u64 },
            Backend::Cuda(cuda) => {
                cuda.context().bind_to_thread()?;
                // SAFETY: the context is current and the address is freed once, in `drop`.
                unsafe { result::malloc_sync(bytes)? }
            }
        };
        Ok(Self {
            address,
            bytes,
            device: device.clone(),
        })
    }

    /// Where they are: a device pointer, or on an embedded device an address of this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many were asked for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where they came from.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The bytes themselves; none on CUDA, where the host cannot reach them.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if matches!(self.device.backend(), Backend::Cuda(_)) {
            return None;
        }
        if self.bytes == 0 {
            return Some(&[]);
        }
        // SAFETY: the range belongs to this buffer alone, is initialised (fresh memory is zeroed)
        // and nobody can write to it while the buffer is borrowed shared.
        Some(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) })
    }

    /// The bytes themselves, to write; none on CUDA.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        if matches!(self.device.backend(), Backend::Cuda(_)) {
            return None;
        }
        if self.bytes == 0 {
            return Some(&mut []);
        }
        // SAFETY: as in `as_bytes`, and the buffer is borrowed alone.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) })
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 512).expect("512 is a power of two")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.device.backend() {
            _ if self.bytes == 0 => {}
            // SAFETY: allocated in `new` with the same layout, and freed only here.
            Backend::Embedded(_) => unsafe {
                std::alloc::dealloc(self.address as *mut u8, layout(self.bytes));
            },
            Backend::Cuda(cuda) => {
                let freed = cuda
                    .context()
                    .bind_to_thread()
                    // SAFETY: allocated in `new`, and freed only here.
                    .and_then(|()| unsafe { result::free_sync(self.address) });
                cuda.context().record_err(freed);
            }
        }
    }
}
