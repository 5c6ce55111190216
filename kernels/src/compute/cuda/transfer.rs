//! Transfers between host and device, plain fills, and launches of `copy.cu`.
#![expect(unsafe_code, reason = "copies to and from addresses")]

use std::sync::Arc;

use cudarc::driver::{result, sys};

use crate::compute::dtype::DType;
use crate::compute::kernels::{Operand, TransferKernels};
use crate::compute::storage::Storage;
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, floats, start};
use super::launch::Grid;
use super::strided::Strided;

impl TransferKernels for Cuda {
    fn upload(&self, bytes: &[u8], to: &Storage) -> Result<()> {
        assert!(
            bytes.len() <= to.bytes(),
            "the bytes do not fit in the storage"
        );
        if bytes.is_empty() {
            return Ok(());
        }
        self.context().bind_to_thread()?;
        // SAFETY: the storage has room for the bytes. The host memory is pageable, so the driver
        // has read all bytes when the call returns
        // (<https://docs.nvidia.com/cuda/cuda-driver-api/api-sync-behavior.html>).
        let copied =
            unsafe { result::memcpy_htod_async(to.address(), bytes, self.stream().cu_stream()) };
        Ok(copied?)
    }

    fn download(&self, from: &Storage, offset: usize, into: &mut [u8]) -> Result<()> {
        assert!(
            offset + into.len() <= from.bytes(),
            "the range to download ends beyond the end of the storage"
        );
        if into.is_empty() {
            return Ok(());
        }
        self.context().bind_to_thread()?;
        let address = from.address() + offset as u64;
        // SAFETY: the range lies in the storage, and `into` stays borrowed until the code below has
        // waited for the stream.
        let copied = unsafe { result::memcpy_dtoh_async(into, address, self.stream().cu_stream()) };
        // Wait even if the copy was refused, because nothing may write to `into` later.
        let done = self.stream().synchronize();
        copied?;
        Ok(done?)
    }

    fn zero(&self, storage: &Arc<Storage>) -> Result<()> {
        if storage.bytes() == 0 {
            return Ok(());
        }
        self.context().bind_to_thread()?;
        // SAFETY: the range is the whole storage.
        let set =
            unsafe { result::memset_d8_async(storage.address(), 0, storage.bytes(), self.queue()) };
        Ok(set?)
    }

    fn fill(&self, value: f32, out: Operand<'_>) -> Result<()> {
        if count(out) == 0 {
            return Ok(());
        }
        self.context().bind_to_thread()?;
        let word = value.to_bits();
        // SAFETY: the range is the operand, which is contiguous and has four-byte elements.
        let set =
            unsafe { sys::cuMemsetD32Async(floats(out), word, out.layout.count(), self.queue()) };
        Ok(set.result()?)
    }

    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()> {
        let (source, target, count) = (start(from, dtype), start(to, dtype), count(to));
        if from.layout.is_contiguous() && to.layout.is_contiguous() {
            return self.copy_on_device(source, target, to.layout.count() * dtype.bytes());
        }
        let kernel = match dtype {
            DType::F32 => Kernel::Copy4,
            DType::I64 => Kernel::Copy8,
        };
        let layout = Strided::of(&from.layout, &to.layout);
        self.launch(
            kernel,
            Grid::over(count),
            [
                (&source).into(),
                (&target).into(),
                (&layout).into(),
                (&count).into(),
            ],
        )
    }
}

impl Cuda {
    pub(super) fn copy_on_device(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().bind_to_thread()?;
        // SAFETY: both ranges have that many bytes and do not overlap. There are two callers:
        // `copy` passes operands in different storages, and `random` passes parts of storages that
        // do not overlap.
        let copied = unsafe { result::memcpy_dtod_async(to, from, bytes, self.queue()) };
        Ok(copied?)
    }
}
