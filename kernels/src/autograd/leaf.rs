//! Leaves: the tensors for which backward passes store gradients.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::array::Array;
use crate::error::Result;

/// A leaf of graphs, like PyTorch's `AccumulateGrad`: the contents of a tensor, and the gradient
/// that backward passes have accumulated for it. A graph that refers to a leaf keeps the leaf
/// alive.
#[derive(Debug)]
pub(crate) struct Leaf {
    content: Array,
    gradient: Mutex<Option<Array>>,
}

impl Leaf {
    pub(crate) fn new(content: Array) -> Self {
        Self {
            content,
            gradient: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Array>> {
        self.gradient.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gradient(&self) -> Option<Array> {
        self.lock().clone()
    }

    pub(crate) fn replace_gradient(&self, gradient: Option<Array>) {
        // The old gradient is dropped after the lock is released.
        let _old = std::mem::replace(&mut *self.lock(), gradient);
    }

    /// Adds a gradient. The first one becomes the leaf's own array if nothing else holds it, and is
    /// copied otherwise; later gradients are added to it. The lock is held, so that the gradients
    /// of passes on several threads add up.
    pub(super) fn accumulate(&self, gradient: Array) -> Result<()> {
        debug_assert_eq!(gradient.shape(), self.content.shape());
        let mut sum = self.lock();
        if let Some(sum) = &*sum {
            return sum.add_assign(&gradient);
        }
        let own = if gradient.is_sole_owner() && gradient.is_contiguous() {
            gradient
        } else {
            gradient.copied()?
        };
        *sum = Some(own);
        Ok(())
    }
}
