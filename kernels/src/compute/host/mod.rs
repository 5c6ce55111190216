//! The operations of an embedded device, on the CPU.
//!
//! All arithmetic is in `f32`, but sums are accumulated in `f64`. Large operations share their
//! work among threads that end with the operation.

mod elements;
mod loss;
mod matmul;
mod optimizer;
mod pointwise;
mod reduce;
mod softmax;

use std::sync::{Arc, MutexGuard, PoisonError};

use self::elements::dense_mut;
use super::dtype::DType;
use super::kernels::{
    AdamParameter, AdamStep, Binary, Epilogue, Kernels, Operand, SgdParameter, SgdStep,
    SoftmaxKind, Unary,
};
use super::layout::Around;
use super::storage::Storage;
use crate::embedded::Embedded;
use crate::error::Result;
use crate::random::{self, Distribution};

impl Embedded {
    /// Runs one operation at a time, as a stream does. So an operation can lock its storages in any
    /// order, and lock one storage twice for reading.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.order().lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernels for Embedded {
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
        dense_mut::<f32>(&mut out.storage.write(), &out).fill(value);
        Ok(())
    }

    fn random(&self, distribution: Distribution, seed: u64, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        random::fill(
            distribution,
            seed,
            dense_mut(&mut out.storage.write(), &out),
        );
        Ok(())
    }

    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        match dtype {
            DType::F32 => pointwise::copy::<f32>(&from, &to),
            DType::I64 => pointwise::copy::<i64>(&from, &to),
        }
        Ok(())
    }

    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        pointwise::unary(op, &input, &out);
        Ok(())
    }

    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        pointwise::binary(op, &lhs, &rhs, &out);
        Ok(())
    }

    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        pointwise::add_assign(&target, &other);
        Ok(())
    }

    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        matmul::matmul(&lhs, &rhs, epilogue, &out);
        Ok(())
    }

    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        let _turn = self.turn();
        reduce::sum(&input, around, scale, &out);
        Ok(())
    }

    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        softmax::forward(kind, &input, around, &out);
        Ok(())
    }

    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        softmax::backward(kind, &gradient, &result, around, &out);
        Ok(())
    }

    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()> {
        let _turn = self.turn();
        loss::mse(&input, &target, out);
        Ok(())
    }

    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        loss::mse_backward(&gradient, &input, &target, &out);
        Ok(())
    }

    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        loss::nll(&log_probabilities, &classes, &out, &weight);
        Ok(())
    }

    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        let _turn = self.turn();
        loss::cross_entropy_backward(&gradient, &log_probabilities, &classes, &weight, &out);
        Ok(())
    }

    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        let _turn = self.turn();
        for parameter in parameters {
            optimizer::sgd(step, parameter);
        }
        Ok(())
    }

    fn adam(&self, step: AdamStep, parameters: &[AdamParameter<'_>]) -> Result<()> {
        let _turn = self.turn();
        for parameter in parameters {
            optimizer::adam(step, parameter);
        }
        Ok(())
    }
}
