//! The engines of a CUDA device: loaded code, the cuBLAS handle, the cuRAND generator.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::CudaContext;

use crate::error::{Error, Result};

use super::blas::Blas;
use super::module::Modules;
use super::rand::Generator;

/// The engines of a device. Each is created at its first use and destroyed with the device.
#[derive(Debug, Default)]
pub(super) struct Engines {
    pub(super) modules: Modules,
    pub(super) blas: Slot<Blas>,
    pub(super) generator: Slot<Generator>,
}

/// Rejects the creation of an engine whose library is not installed.
///
/// # Errors
///
/// Returns an error if the library is not present.
pub(super) fn expect_library(name: &str, is_present: bool, context: &CudaContext) -> Result<()> {
    if is_present {
        return Ok(());
    }
    Err(Error::Unavailable {
        device: format!("cuda:{}", context.ordinal()),
        detail: format!("{name} was not found; install it or add its directory to LD_LIBRARY_PATH"),
    })
}

/// A value that one thread at a time may use.
#[derive(Debug)]
pub(super) struct Slot<T>(Mutex<Option<T>>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Slot<T> {
    /// Calls `act` with the value, and creates the value first if there is none.
    pub(super) fn with<R>(
        &self,
        make: impl FnOnce() -> Result<T>,
        act: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let mut place: MutexGuard<'_, _> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(found) => act(found),
            empty => act(empty.insert(make()?)),
        }
    }
}
