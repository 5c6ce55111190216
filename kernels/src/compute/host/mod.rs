//! The operations of an embedded device, on the CPU.
//!
//! All arithmetic is in `f32`, but sums are accumulated in `f64`. Large operations divide their
//! work among threads that end with the operation.

mod elements;
mod loss;
mod matmul;
mod optimizer;
mod pointwise;
mod random;
mod reduce;
mod softmax;
mod transfer;

use std::sync::{MutexGuard, PoisonError};

use crate::embedded::Embedded;

impl Embedded {
    /// Waits until no other operation runs: operations run one at a time, as on a stream. So an
    /// operation can lock its storages in any order, and can lock one storage twice for reading.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.order().lock().unwrap_or_else(PoisonError::into_inner)
    }
}
