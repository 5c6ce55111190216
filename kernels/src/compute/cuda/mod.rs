//! The operations of a CUDA device: typed launches, in files with the stems of `kernels/cuda`.
//!
//! All work goes to one stream, and only [`Kernels::download`] waits for it. All arithmetic
//! is in `f32` with fused multiply-add, sines and exponentials are CUDA's accurate ones, and
//! products use no TF32.

mod address;
mod copy;
mod launch;
mod loss;
mod matmul;
mod optimizer;
mod pointwise;
mod random;
mod reduce;
mod softmax;
mod strided;
mod transfer;
mod workspace;

use std::sync::Arc;

pub use workspace::BlasWorkspace;

use super::dtype::DType;
use super::kernels::{
    AdamParameter, AdamStep, Binary, Epilogue, Kernels, Operand, SgdParameter, SgdStep,
    SoftmaxKind, Unary,
};
use super::layout::Around;
use super::storage::Storage;
use crate::cuda::Cuda;
use crate::error::Result;
use crate::random::Distribution;

impl Kernels for Cuda {
    fn upload(&self, bytes: &[u8], to: &Storage) -> Result<()> {
        self.copy_to_device(bytes, to)
    }

    fn download(&self, from: &Storage, offset: usize, into: &mut [u8]) -> Result<()> {
        self.copy_to_host(from, offset, into)
    }

    fn zero(&self, storage: &Arc<Storage>) -> Result<()> {
        self.set_bytes_to_zero(storage)
    }

    fn fill(&self, value: f32, out: Operand<'_>) -> Result<()> {
        self.set_words(value.to_bits(), out)
    }

    fn random(&self, distribution: Distribution, seed: u64, out: Operand<'_>) -> Result<()> {
        self.launch_random(distribution, seed, out)
    }

    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()> {
        self.launch_copy(dtype, from, to)
    }

    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()> {
        self.launch_unary(op, input, out)
    }

    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_binary(op, lhs, rhs, out)
    }

    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()> {
        self.launch_add_assign(target, other)
    }

    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_matmul(lhs, rhs, epilogue, out)
    }

    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()> {
        self.launch_sum(input, around, scale, out)
    }

    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_softmax(kind, input, around, out)
    }

    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_softmax_backward(kind, gradient, result, around, out)
    }

    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()> {
        self.launch_mse(input, target, out)
    }

    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_mse_backward(gradient, input, target, out)
    }

    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()> {
        self.launch_nll(log_probabilities, classes, out, weight)
    }

    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()> {
        self.launch_cross_entropy_backward(gradient, log_probabilities, classes, weight, out)
    }

    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        self.launch_sgd(step, parameters)
    }

    fn adam(&self, step: AdamStep, parameters: &[AdamParameter<'_>]) -> Result<()> {
        self.launch_adam(step, parameters)
    }
}
