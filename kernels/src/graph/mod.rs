//! Work recorded once and replayed with a single call, as with
//! [`torch.cuda.graph`](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
//!
//! A small network's kernels run faster than the host can launch them: launching takes most of the
//! time. [`Graph::capture`] runs a closure whose work is recorded instead of done,
//! [`Graph::instantiate`] prepares the recorded work, and each [`ExecGraph::replay`] does all of it
//! with one launch. [`TrainingStep`](crate::TrainingStep) does this for a training step.
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
//! **Addresses are fixed.** A replay reads and writes the memory of the capture. Inputs must
//! therefore be copied into the captured tensors ([`Tensor::copy_`](crate::Tensor::copy_)), and
//! outputs are the tensors that the closure returned: each replay overwrites them. Memory that the
//! closure allocates comes from a *private pool*, which serves no other requests. The graph keeps
//! any other memory that it uses alive. When the graph is dropped, its pool becomes ordinary cached
//! memory, which [`empty_cache`](crate::memory::empty_cache) returns. The exception is a segment
//! that a tensor of the capture still pins, such as a kept output or a gradient that a captured
//! backward pass left in a parameter.
//!
//! **Figures** are PyTorch's: `reserved` includes the segments of a private pool, and `allocated`
//! includes only the blocks currently handed out from it. Memory that the closure has dropped can
//! serve later requests of the closure, but none after the capture.
//!
//! **Operations that cannot be recorded** are rejected and end the capture with an error that names
//! them:
//!
//! - Anything that waits for the device, or copies from or to the host.
//! - Random numbers, which would be the same at each replay.
//! - Adam, whose correction is computed on the host at each step.
//! - The first step of SGD with momentum, which sets the momentum instead of adding to it.
//! - Memory for another stream, and work on another device.
//!
//! Only work of the capturing thread is recorded. Constants are recorded with their current values,
//! so a later change of the learning rate has no effect.

mod capture;
mod exec;
mod held;
mod operation;
mod record;

pub use exec::{ExecGraph, Graph};
pub(crate) use record::Recorder;
