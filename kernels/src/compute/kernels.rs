//! The operations that every device implements.
//!
//! The callers check shapes, types and devices and allocate the outputs; an implementation only
//! computes. It may assume that every operand is on its device, that shapes are as documented for
//! each method, and that no output shares its storage with an input.

use std::sync::Arc;

use crate::error::Result;
use crate::random::Distribution;

use super::dtype::DType;
use super::layout::{Around, Layout};
use super::storage::Storage;

/// The elements of a storage that a layout selects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    pub(crate) storage: &'a Arc<Storage>,
    pub(crate) layout: Layout,
}

/// An operation that computes `f(x)` for each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unary {
    Sin,
    Relu,
    /// `x + value`.
    AddScalar(f32),
    /// `x · value`.
    MulScalar(f32),
}

/// An operation that computes `f(a, b)` for each pair of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    /// 0 where the result `b` of a relu is at most 0, otherwise the gradient `a`. So the gradient
    /// is not lost where the result is NaN, as in PyTorch.
    ReluBackward,
    /// The gradient `a` times the cosine of the input `b`.
    SinBackward,
}

/// The operations that are applied to each element of a matrix product before it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epilogue<'a> {
    /// A contiguous vector that is added to each row. It has as many elements as a row.
    pub(crate) bias: Option<Operand<'a>>,
    /// Whether negative results become 0.
    pub(crate) relu: bool,
}

/// The function that is computed along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoftmaxKind {
    Softmax,
    LogSoftmax,
}

/// One parameter of an SGD step. All operands are contiguous and have the same length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SgdParameter<'a> {
    pub(crate) value: Operand<'a>,
    pub(crate) gradient: Operand<'a>,
    /// `None` without momentum.
    pub(crate) momentum: Option<Operand<'a>>,
    /// Whether the momentum has no value yet. If so, the momentum is set to the gradient.
    pub(crate) first: bool,
}

/// The constants of a step of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SgdStep {
    pub(crate) learning_rate: f32,
    pub(crate) momentum: f32,
    pub(crate) weight_decay: f32,
}

/// One parameter of an Adam step. All operands are contiguous and have the same length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamParameter<'a> {
    pub(crate) value: Operand<'a>,
    pub(crate) gradient: Operand<'a>,
    pub(crate) mean: Operand<'a>,
    pub(crate) square: Operand<'a>,
    /// The learning rate divided by `1 − beta1^step`.
    pub(crate) step_size: f32,
    /// `√(1 − beta2^step)`.
    pub(crate) square_correction: f32,
    /// Whether this is the first step: the moments are uninitialised and are treated as 0.
    pub(crate) first: bool,
}

/// The constants of a step of Adam.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamStep {
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) epsilon: f32,
    pub(crate) weight_decay: f32,
}

/// The operations of a device.
pub(crate) trait Kernels:
    TransferKernels
    + RandomKernels
    + PointwiseKernels
    + MatmulKernels
    + ReduceKernels
    + SoftmaxKernels
    + LossKernels
    + OptimizerKernels
{
}

impl<T> Kernels for T where
    T: TransferKernels
        + RandomKernels
        + PointwiseKernels
        + MatmulKernels
        + ReduceKernels
        + SoftmaxKernels
        + LossKernels
        + OptimizerKernels
{
}

/// Moves bytes to, from and within a device.
pub(crate) trait TransferKernels {
    /// Copies host bytes to the start of a storage. Once this returns, the caller may overwrite the
    /// host bytes.
    fn upload(&self, bytes: &[u8], to: &Storage) -> Result<()>;

    /// Copies the bytes of a storage, starting at `offset`, to the host, and waits for the copy.
    fn download(&self, from: &Storage, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Sets all bytes to 0.
    fn zero(&self, storage: &Arc<Storage>) -> Result<()>;

    /// Sets every element of a contiguous `f32` output to `value`.
    fn fill(&self, value: f32, out: Operand<'_>) -> Result<()>;

    /// Copies elements between any two layouts with the same shape.
    fn copy(&self, dtype: DType, from: Operand<'_>, to: Operand<'_>) -> Result<()>;
}

pub(crate) trait RandomKernels {
    /// Fills a contiguous `f32` output with random numbers.
    fn random(&self, distribution: Distribution, seed: u64, out: Operand<'_>) -> Result<()>;
}

pub(crate) trait PointwiseKernels {
    /// Applies a function to an input of any layout; the output is contiguous and has the shape of
    /// the input.
    fn unary(&self, op: Unary, input: Operand<'_>, out: Operand<'_>) -> Result<()>;

    /// Applies a function to two inputs with the output's shape; the output is contiguous.
    fn binary(
        &self,
        op: Binary,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()>;

    /// `target += other`, for two layouts with the same shape in different storages.
    fn add_assign(&self, target: Operand<'_>, other: Operand<'_>) -> Result<()>;
}

pub(crate) trait MatmulKernels {
    /// Computes `(m × k) · (k × n)` for any two-dimensional layouts. The output is contiguous.
    fn matmul(
        &self,
        lhs: Operand<'_>,
        rhs: Operand<'_>,
        epilogue: Epilogue<'_>,
        out: Operand<'_>,
    ) -> Result<()>;
}

/// Combines the elements along one dimension.
pub(crate) trait ReduceKernels {
    /// Sums over the middle dimension of `outer × size × inner`, and multiplies by a factor. Input
    /// and output are contiguous.
    fn sum(&self, input: Operand<'_>, around: Around, scale: f32, out: Operand<'_>) -> Result<()>;
}

/// Computes softmax and its logarithm along one dimension.
pub(crate) trait SoftmaxKernels {
    /// Works along the middle dimension of `outer × size × inner`. Input and output are contiguous.
    fn softmax(
        &self,
        kind: SoftmaxKind,
        input: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()>;

    /// Computes the gradient of the input from the result and its gradient. All operands are
    /// contiguous.
    fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        gradient: Operand<'_>,
        result: Operand<'_>,
        around: Around,
        out: Operand<'_>,
    ) -> Result<()>;
}

pub(crate) trait LossKernels {
    /// Writes the mean of the squared differences of two contiguous inputs to the first element of
    /// a storage of their size. The rest of the storage may be used as scratch space.
    fn mse(&self, input: Operand<'_>, target: Operand<'_>, out: &Arc<Storage>) -> Result<()>;

    /// Computes `gradient · 2 (input − target) / count`, with a gradient of one element.
    fn mse_backward(
        &self,
        gradient: Operand<'_>,
        input: Operand<'_>,
        target: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()>;

    /// Computes the mean negative log-likelihood of one class per row, and the number of rows as a
    /// float. A class that does not exist gives NaN.
    fn nll(
        &self,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        out: Operand<'_>,
        weight: Operand<'_>,
    ) -> Result<()>;

    /// Computes the gradient of a mean negative log-likelihood through the log-softmax before it:
    /// `gradient · (exp(log p) − one-hot) / weight`. A class that does not exist makes the gradient
    /// of its row NaN.
    fn cross_entropy_backward(
        &self,
        gradient: Operand<'_>,
        log_probabilities: Operand<'_>,
        classes: Operand<'_>,
        weight: Operand<'_>,
        out: Operand<'_>,
    ) -> Result<()>;
}

pub(crate) trait OptimizerKernels {
    /// Performs one step for all parameters.
    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()>;

    /// Performs one step for all parameters.
    fn adam(&self, step: AdamStep, parameters: &[AdamParameter<'_>]) -> Result<()>;
}
