//! A step of training as one graph.

use crate::error::Result;
use crate::graph::{ExecGraph, Graph};
use crate::optim::{Optimizer, Sgd};
use crate::tensor::Tensor;

/// One step of training, replayed: forward pass, loss, backward pass and the change of the
/// parameters with a single launch.
///
/// ```
/// use gpu_leak_kernels::nn::Module;
/// use gpu_leak_kernels::optim::Sgd;
/// use gpu_leak_kernels::{Device, Tensor, TinyModel, TrainingStep};
///
/// let device = Device::embedded()?;
/// let model = TinyModel::new(&device)?;
/// let inputs = Tensor::rand([64, TinyModel::INPUTS], &device)?;
/// let targets = Tensor::rand([64, TinyModel::OUTPUTS], &device)?;
/// let mut optimizer = Sgd::new(model.parameters(), 0.01)?;
/// let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |inputs, targets| {
///     model.forward(inputs)?.mse_loss(targets)
/// })?;
/// for _ in 0..10 {
///     step.replay()?;
/// }
/// println!("{}", step.loss().item()?);
/// # Ok::<(), gpu_leak_kernels::Error>(())
/// ```
///
/// The numbers are those of the same steps one by one, bit for bit on the same device. Only where
/// cuBLAS was lent a [workspace](crate::BlasWorkspace), large products may differ in their
/// rounding, because a graph's products do not use it. The gradients that a step leaves in its
/// parameters are memory of its pool, until [`zero_grad`](Optimizer::zero_grad) drops them.
#[derive(Debug)]
pub struct TrainingStep {
    graph: ExecGraph,
    inputs: Tensor,
    targets: Tensor,
    loss: Tensor,
}

impl TrainingStep {
    /// Takes one step as usual, which loads the kernels and allocates the optimiser's state, and
    /// captures the next.
    ///
    /// `loss` makes a scalar of the two tensors, whose shapes stay as they are; [`Self::step`]
    /// changes their content. Learning rate, momentum and weight decay stay what they are now.
    ///
    /// # Errors
    ///
    /// When the step fails, or something in `loss` cannot be captured: see [`Graph::capture`]. The
    /// step before the capture may have been taken then.
    pub fn capture(
        optimizer: &mut Sgd,
        inputs: &Tensor,
        targets: &Tensor,
        loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Self> {
        let mut step = || {
            optimizer.zero_grad();
            let loss = loss(inputs, targets)?;
            loss.backward()?;
            optimizer.step()?;
            Ok(loss.detach())
        };
        step()?;
        let (graph, loss) = Graph::capture(inputs.device(), step)?;
        Ok(Self {
            graph: graph.instantiate()?,
            inputs: inputs.clone(),
            targets: targets.clone(),
            loss,
        })
    }

    /// A step on what is in the inputs and targets now.
    ///
    /// # Errors
    ///
    /// As [`ExecGraph::replay`].
    pub fn replay(&mut self) -> Result<()> {
        self.graph.replay()
    }

    /// A step on another batch of the same shapes, which is copied into the inputs and targets.
    ///
    /// # Errors
    ///
    /// When a shape, type or device differs, or as [`ExecGraph::replay`].
    pub fn step(&mut self, inputs: &Tensor, targets: &Tensor) -> Result<()> {
        self.inputs.copy_(inputs)?;
        self.targets.copy_(targets)?;
        self.replay()
    }

    /// The loss of the last replay, a scalar: it was computed before the parameters changed.
    #[must_use]
    pub fn loss(&self) -> &Tensor {
        &self.loss
    }
}
