//! The engines of a CUDA device: the loaded code, the cuBLAS handle and the cuRAND generator.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;

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
