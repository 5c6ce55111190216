//! The simulated device's memory: anonymous mappings up to a capacity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapMut, MmapOptions};

use super::config::EmbeddedConfig;
use super::fault::Faults;
use crate::allocator::{DeviceMemory, SegmentError, SegmentSource};
use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::stream::{Event, Stream};
use crate::watch::Reporter;

/// Device memory is counted in pages of this size, as on a GPU.
const PAGE: usize = 2 << 20;

/// Memory that the host commits page by page when it is touched, so a tensor of 4 GiB costs only
/// as much memory as is written to it.
#[derive(Debug)]
pub(crate) struct EmbeddedMemory {
    capacity: usize,
    reporter: Reporter,
    state: Mutex<MappedMemory>,
}

#[derive(Debug)]
pub(crate) struct MappedMemory {
    mappings: HashMap<u64, MmapMut>,
    /// The bytes in use in whole pages, including the context's bytes.
    used: usize,
    pub(crate) faults: Faults,
}

impl EmbeddedMemory {
    pub(crate) fn new(config: &EmbeddedConfig) -> Result<Self> {
        let device = format!("embedded:{}", config.ordinal);
        let context = pages(config.context_bytes);
        if context.is_none_or(|bytes| bytes > config.capacity) {
            return Err(Error::Unavailable {
                device,
                detail: format!(
                    "its context of {} does not fit into its capacity of {}",
                    Bytes(config.context_bytes as u64),
                    Bytes(config.capacity as u64),
                ),
            });
        }
        Ok(Self {
            capacity: config.capacity,
            reporter: Reporter::segments(&device),
            state: Mutex::new(MappedMemory {
                mappings: HashMap::new(),
                used: context.unwrap_or(0),
                faults: Faults::default(),
            }),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, MappedMemory> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EmbeddedMemory {
    /// Frees the memory that is still allocated, as the destruction of a context does.
    fn drop(&mut self) {
        for address in self.lock().mappings.keys() {
            self.reporter.freed(*address);
        }
    }
}

fn pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(PAGE)
}

impl SegmentSource for Arc<EmbeddedMemory> {
    fn allocate(&self, bytes: usize) -> Result<u64, SegmentError> {
        let mut state = self.lock();
        if state.faults.allocation.strikes() {
            return Err(SegmentError::OutOfMemory);
        }
        let room = self.capacity - state.used;
        let Some(size) = pages(bytes).filter(|size| *size <= room) else {
            return Err(SegmentError::OutOfMemory);
        };
        // Without a reservation, the host commits no page before it is touched.
        let mapped = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
        let Ok(mut mapping) = mapped else {
            return Err(SegmentError::OutOfMemory);
        };
        let address = mapping.as_mut_ptr().expose_provenance() as u64;
        state.mappings.insert(address, mapping);
        state.used += size;
        drop(state);
        self.reporter.allocated(address, bytes);
        Ok(address)
    }

    fn free(&self, address: u64, bytes: usize) -> Result<()> {
        let mut state = self.lock();
        if state.faults.free.strikes() {
            return Err(Error::Fault { call: "free" });
        }
        // Report the free before the host can map the address again.
        self.reporter.freed(address);
        let mapping = state.mappings.remove(&address);
        debug_assert!(mapping.is_some_and(|mapping| mapping.len() == bytes));
        state.used -= pages(bytes).expect("it was mapped");
        Ok(())
    }

    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>> {
        match stream {
            Stream::Embedded(stream) => Ok(Box::new(stream.record())),
            Stream::Cuda(_) => Err(Error::Argument {
                operation: "record",
                detail: "a CUDA stream does no work on an embedded device".into(),
            }),
        }
    }

    fn synchronize(&self) -> Result<()> {
        // Operations are complete when they return.
        Ok(())
    }

    fn memory(&self) -> Result<DeviceMemory> {
        Ok(DeviceMemory {
            free: self.capacity - self.lock().used,
            total: self.capacity,
        })
    }
}
