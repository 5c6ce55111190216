//! Work recorded once and replayed with a single call, as with
//! [`torch.cuda.graph`](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
//!
//! A small network's kernels run faster than the host can launch them: launching takes most of the
//! time. [`Graph::capture`] runs a closure whose work is recorded instead of done,
//! [`Graph::instantiate`] makes the record ready, and each [`ExecGraph::replay`] does all of it
//! with one launch. [`TrainingStep`](crate::TrainingStep) is that for a step of training.
//!
//! ```
//! use gpu_leak_kernels::{Device, Graph, Tensor};
//!
//! let device = Device::embedded()?;
//! let input = Tensor::zeros([4], &device)?;
//! let (graph, output) = Graph::capture(&device, || input.add_scalar(1.0))?;
//! let mut graph = graph.instantiate()?;
//! input.copy_(&Tensor::full([4], 2.0, &device)?)?;
//! graph.replay()?;
//! assert_eq!(output.to_vec::<f32>()?, [3.0; 4]);
//! # Ok::<(), gpu_leak_kernels::Error>(())
//! ```
//!
//! **Addresses are fixed.** A replay reads and writes the memory of the capture. So inputs are
//! copied into the tensors that were there then ([`Tensor::copy_`](crate::Tensor::copy_)), and
//! outputs are the tensors that the closure returned: each replay writes them anew. What the
//! closure takes comes from a *private pool*, which serves nothing else; the graph keeps alive
//! what it only uses. When the graph is dropped its pool is cached memory like any other, which
//! [`empty_cache`](crate::memory::empty_cache) returns, except for segments that a tensor of the
//! capture still pins: a kept output, or the gradients that a captured backward pass left in its
//! parameters.
//!
//! **Figures** are PyTorch's: `reserved` counts a private pool from its first segment on,
//! `allocated` only what is handed out of it at the moment. What the closure has dropped can serve
//! its later requests; after the capture it serves no request.
//!
//! **What cannot be recorded** is refused, and the capture with it, with an error that names it:
//! anything that waits for the device, copies from or to the host, random numbers (they would be
//! the same at each replay), Adam (its correction is computed on the host, anew at each step),
//! memory for another stream, work on another device. Only work of the capturing thread is
//! recorded. Constants are recorded as they are: a learning rate stays what it was.

mod capture;
mod exec;
mod held;
mod operation;
mod record;

pub use exec::{ExecGraph, Graph};
pub(crate) use record::Recorder;
