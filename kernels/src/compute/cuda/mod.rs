//! The operations of a CUDA device: typed launches, in files with the stems of `kernels/cuda`;
//! those of `copy.cu` are in `transfer.rs`.
//!
//! All work goes to one stream, and only `TransferKernels::download` waits for it. All arithmetic
//! is in `f32` with fused multiply-add, sines and exponentials are CUDA's accurate ones, and
//! products use no TF32.

mod address;
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

pub use workspace::BlasWorkspace;
