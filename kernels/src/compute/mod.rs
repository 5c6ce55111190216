//! What devices compute, and on what: the operations as traits, which the CPU and CUDA
//! implement, over layouts of numbers in storages.

mod cuda;
mod dtype;
mod host;
mod kernels;
mod layout;
mod storage;

pub use cuda::BlasWorkspace;
pub use dtype::{DType, Element};
pub(crate) use kernels::{
    AdamParameter, AdamStep, Binary, Epilogue, Kernels, LossKernels, MatmulKernels, Operand,
    OptimizerKernels, PointwiseKernels, RandomKernels, ReduceKernels, SgdParameter, SgdStep,
    SoftmaxKernels, SoftmaxKind, TransferKernels, Unary,
};
pub use layout::MAX_RANK;
pub(crate) use layout::{Around, Dims, Layout, broadcast};
pub(crate) use storage::Storage;
