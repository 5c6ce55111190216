//! Random numbers.

use super::elements::dense_mut;
use crate::compute::kernels::{Operand, RandomKernels};
use crate::embedded::Embedded;
use crate::error::Result;
use crate::random::{self, Distribution};

impl RandomKernels for Embedded {
    fn random(&self, distribution: Distribution, seed: u64, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        random::fill(distribution, seed, dense_mut(&mut out.storage.write(), out));
        Ok(())
    }
}
