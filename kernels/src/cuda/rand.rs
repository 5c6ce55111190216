//! cuRAND's generator.
#![expect(unsafe_code, reason = "passes raw handles and addresses to cuRAND")]

use std::sync::Arc;

use cudarc::curand::{result, sys};
use cudarc::driver::CudaStream;

use crate::error::{Result, expect_library};
use crate::random::Distribution;

/// A Philox generator on a device's stream. At the first draw, cuRAND allocates the generator's
/// state from the driver, outside the caching allocator.
#[derive(Debug)]
pub(crate) struct Generator {
    handle: sys::curandGenerator_t,
    stream: Arc<CudaStream>,
}

// SAFETY: any thread may use a cuRAND generator as long as only one thread uses it at a time, which
// the mutex of its slot ensures.
unsafe impl Send for Generator {}

impl Generator {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        // SAFETY: the call only tries to open the library, whose initialisers are safe to run.
        let is_present = unsafe { sys::is_culib_present() };
        expect_library("libcurand", is_present, stream.context())?;
        stream.context().bind_to_thread()?;
        let kind = sys::curandRngType_t::CURAND_RNG_PSEUDO_PHILOX4_32_10;
        let generator = Self {
            handle: result::create_generator_kind(kind)?,
            stream: Arc::clone(stream),
        };
        // SAFETY: the generator is alive, and keeps the stream alive.
        unsafe { result::set_stream(generator.handle, stream.cu_stream().cast()) }?;
        Ok(generator)
    }

    /// Draws `count` numbers. For a normal distribution, `count` must be even. Uniform draws lie in
    /// (0, 1].
    ///
    /// # Safety
    ///
    /// `address` must be on this device and have room for `count` numbers until the stream has
    /// finished drawing them.
    pub(crate) unsafe fn draw(
        &self,
        distribution: Distribution,
        seed: u64,
        address: u64,
        count: usize,
    ) -> Result<()> {
        self.stream.context().bind_to_thread()?;
        let out = std::ptr::with_exposed_provenance_mut(
            usize::try_from(address).expect("device addresses have the host's width"),
        );
        // SAFETY: the generator is alive, and the caller guarantees that the address is valid.
        unsafe {
            result::set_seed(self.handle, seed)?;
            result::set_offset(self.handle, 0)?;
            match distribution {
                Distribution::Uniform => result::generate::uniform_f32(self.handle, out, count)?,
                Distribution::Normal => {
                    result::generate::normal_f32(self.handle, out, count, 0.0, 1.0)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(context.bind_to_thread());
        // SAFETY: the generator was created in `new` and is destroyed only here. An error can be
        // ignored, because it occurs again, and is reported, at the next call to the context.
        let _ = unsafe { result::destroy_generator(self.handle) };
    }
}
