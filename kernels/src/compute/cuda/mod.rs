//! The operations of a CUDA device, as typed launches. The kernels of each file in `kernels/cuda`
//! are launched by the file with the same name here, except that `transfer.rs` launches those of
//! `copy.cu`.
//!
//! All work goes to one stream, and only `TransferKernels::download` waits for it. All arithmetic
//! is in `f32` with fused multiply-add. Sines and exponentials are CUDA's accurate versions, and
//! matrix products do not use TF32.

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
