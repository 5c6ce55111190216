//! Random numbers from cuRAND.
#![expect(unsafe_code, reason = "passes raw addresses to cuRAND")]

use crate::compute::dtype::DType;
use crate::compute::kernels::{Operand, RandomKernels};
use crate::compute::storage::Storage;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;
use crate::random::Distribution;

use super::address::{count, floats};
use super::launch::Grid;

impl RandomKernels for Cuda {
    fn random(&self, distribution: Distribution, seed: u64, out: Operand<'_>) -> Result<()> {
        let (address, count) = (floats(out), count(out));
        match distribution {
            Distribution::Uniform => {
                self.draw(distribution, seed, address, out.layout.count())?;
                self.launch(
                    Kernel::OneToZero,
                    Grid::over(count),
                    [(&address).into(), (&count).into()],
                )
            }
            Distribution::Normal => {
                // cuRAND draws normal numbers in pairs, so the last number of an odd count is drawn
                // separately.
                let paired = out.layout.count() / 2 * 2;
                self.draw(distribution, seed, address, paired)?;
                if paired == out.layout.count() {
                    return Ok(());
                }
                let pair = Storage::new(out.storage.device(), 2 * DType::F32.bytes())?;
                self.draw(distribution, !seed, pair.address(), 2)?;
                let rest = address + (paired * DType::F32.bytes()) as u64;
                self.copy_on_device(pair.address(), rest, DType::F32.bytes())
            }
        }
    }
}

impl Cuda {
    /// `address` must belong to an operand or a storage with room for `count` numbers.
    fn draw(
        &self,
        distribution: Distribution,
        seed: u64,
        address: u64,
        count: usize,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        self.with_generator(|generator| {
            // SAFETY: every caller is in `random` and takes the address and the count from one
            // storage, whose memory is reused only by later work in the stream.
            unsafe { generator.draw(distribution, seed, address, count) }
        })
    }
}
