//! A CUDA device: its context and stream, the driver's memory and graphs, compiled kernels, cuBLAS
//! and cuRAND. Its operations are in `compute`.

mod blas;
mod device;
mod engines;
mod graph;
mod memory;
mod module;
mod rand;

pub(crate) use blas::{BlasMatrix, Workspace};
pub use device::{Cuda, CudaConfig};
pub(crate) use graph::{CapturedGraph, ExecutableGraph, StreamCapture};
pub(crate) use module::Kernel;
