//! The operations of devices, as traits that the CPU and CUDA implement, and their operands:
//! layouts of numbers in storages.

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
