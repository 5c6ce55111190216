//! Transfers between a storage and other memory, and plain fills.

use std::sync::Arc;

use super::elements::{dense, dense_mut, numbers, numbers_mut};
use crate::compute::dtype::{DType, Element};
use crate::compute::kernels::{Operand, TransferKernels};
use crate::compute::storage::Storage;
use crate::embedded::Embedded;
use crate::error::Result;

impl TransferKernels for Embedded {
    fn upload(&self, bytes: &[u8], to: &Storage) -> Result<()> {
        let _turn = self.turn();
        let mut buffer = to.write();
        let out = buffer
            .host_bytes_mut()
            .expect("an embedded device's memory");
        out[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, from: &Storage, offset: usize, into: &mut [u8]) -> Result<()> {
        let _turn = self.turn();
        let buffer = from.read();
        let bytes = buffer.host_bytes().expect("an embedded device's memory");
        into.copy_from_slice(&bytes[offset..][..into.len()]);
        Ok(())
    }

    fn zero(&self, storage: &Arc<Storage>) -> Result<()> {
        let _turn = self.turn();
        let mut buffer = storage.write();
        buffer
            .host_bytes_mut()
            .expect("an embedded device's memory")
            .fill(0);
        Ok(())
    }

    fn fill(&self, value: f32, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        dense_mut::<f32>(&mut out.storage.write(), out).fill(value);
        Ok(())
    }

    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        match dtype {
            DType::F32 => copy::<f32>(from, to),
            DType::I64 => copy::<i64>(from, to),
        }
        Ok(())
    }
}

fn copy<T: Element>(from: Operand<'_>, to: Operand<'_>) {
    let (source, mut target) = (from.storage.read(), to.storage.write());
    let count = to.layout.count();
    if from.layout.is_contiguous() && to.layout.is_contiguous() {
        dense_mut::<T>(&mut target, to).copy_from_slice(dense(&source, from));
        return;
    }
    let (source, target) = (numbers::<T>(&source), numbers_mut::<T>(&mut target));
    let places = from.layout.offsets(0).zip(to.layout.offsets(0));
    for (from, to) in places.take(count) {
        target[to] = source[from];
    }
}
