//! A small deep-learning library in PyTorch's terms, which allocates the same bytes as PyTorch.
//!
//! It is the workload on which leak checks are demonstrated. Its caching allocator follows
//! PyTorch's documented sizes and its operations keep the same tensors as PyTorch's eager ones, so
//! that a program has the same allocated and reserved bytes at each step as in PyTorch
//! ([`programs`]). It runs on a GPU ([`Device::cuda`]) and, for machines without one, in host
//! memory ([`Device::embedded`]). A step of training can be captured once and replayed ([`graph`]).
//!
//! ```
//! use gpu_leak_kernels::nn::Module;
//! use gpu_leak_kernels::optim::{Adam, Optimizer};
//! use gpu_leak_kernels::{Device, Tensor, TinyModel, memory};
//!
//! let device = Device::embedded()?;
//! let model = TinyModel::new(&device)?;
//! let mut optimizer = Adam::new(model.parameters(), 1e-3)?;
//! let inputs = Tensor::rand([64, TinyModel::INPUTS], &device)?;
//! let targets = Tensor::rand([64, TinyModel::OUTPUTS], &device)?;
//! for _ in 0..3 {
//!     optimizer.zero_grad();
//!     let loss = model.forward(&inputs)?.mse_loss(&targets)?;
//!     loss.backward()?;
//!     optimizer.step()?;
//! }
//! // Parameters, gradients and two moments of 90,112 bytes each, and the two batches.
//! assert_eq!(memory::allocated(&device), 4 * 90_112 + 28_160);
//! # Ok::<(), gpu_leak_kernels::Error>(())
//! ```
//! There are six deliberate differences from PyTorch:
//!
//! - Sums on the embedded device are accumulated in `f64`.
//! - A layer and the rectifier behind it may be one operation, which only lowers peaks.
//! - A cross entropy becomes NaN, instead of aborting, if a class does not exist. No class is
//!   ignored, not even −100.
//! - A copy to another device begins a new graph.
//! - Changes in place are never recorded: where a graph would need them, they are an error.
//! - Gradients of gradients are not supported.
//!
//! # Floors
//!
//! Modules have PyTorch's names where PyTorch has the same concept, so that its documentation
//! helps. Each floor imports only from floors below it; `tests/structure` checks this.
//!
//! ```text
//! 16 lib planted programs        planted leaks; whole programs with the known bytes of each step; a training
//!    training                    step as one graph
//! 15 nn optim data               layers, optimisers, data loading
//! 14 tensor                      arrays with their place in an autograd graph; tensors on the host
//! 13 autograd                    that graph: nodes, leaves, the rule of each operation, the backward pass
//! 12 array                       numbers on a device and all operations on them, without gradients
//! 11 dispatch                    selects what executes an operation: the device's implementation or, during
//!                                a capture, the recorder
//! 10 graph                       work that is recorded once and replayed, with its own memory
//! 9 compute                      the operations as traits, on the CPU (host/) and on CUDA (cuda/), over
//!                                layouts of numbers in storages
//! 8 memory                       buffers of a device, and the figures of its allocator
//! 7 device                       a backend and its allocator, which live as long as a handle or one of their blocks
//! 6 cuda embedded                the two backends: context, streams, segments
//! 5 capturing probe              whether this thread captures a graph; the harness's probe of the allocators
//! 4 allocator                    the caching allocator, which handles streams but no device
//! 3 stream                       queues of work, real and simulated, and their events
//! 2 random error                 seeds and random numbers on the host; the error type
//! 1 parallel bytes watch         threads of an operation; byte counts; reports to the harness; which device
//!   device_id                    something belongs to
//! ```
//!
//! Computation is above the device: `compute/cuda` launches kernels through `cuda`. Rules compute
//! gradients with arrays, not tensors, so a backward pass adds nothing to a graph.

mod allocator;
mod array;
pub mod autograd;
mod bytes;
mod capturing;
mod compute;
pub mod cuda;
pub mod data;
pub mod device;
mod device_id;
mod dispatch;
pub mod embedded;
pub mod error;
pub mod graph;
pub mod memory;
pub mod nn;
pub mod optim;
mod parallel;
pub mod planted;
mod probe;
pub mod programs;
mod random;
mod stream;
pub mod tensor;
mod training;
mod watch;

pub use autograd::{inference_mode, no_grad};
pub use compute::BlasWorkspace;
pub use device::{Backend, Device};
pub use embedded::EmbeddedConfig;
pub use error::{Error, Result};
pub use graph::{ExecGraph, Graph};
pub use nn::TinyModel;
pub use tensor::{DType, HostTensor, Tensor, manual_seed};
pub use training::TrainingStep;
