//! A training step as one graph.

use crate::error::Result;
use crate::graph::{ExecGraph, Graph};
use crate::optim::{Optimizer, Sgd};
use crate::tensor::Tensor;

/// A training step that is replayed with a single launch: the forward pass, the loss, the backward
/// pass and the update of the parameters.
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
/// The results equal those of the same steps without a graph, bit for bit on the same device. There
/// is one exception: if a [workspace](crate::BlasWorkspace) was lent to cuBLAS, large products may
/// be rounded differently, because a graph's products do not use it. The gradients that a step
/// leaves in its parameters occupy its pool until [`zero_grad`](Optimizer::zero_grad) drops them.
#[derive(Debug)]
pub struct TrainingStep {
    graph: ExecGraph,
    inputs: Tensor,
    targets: Tensor,
    loss: Tensor,
}

impl TrainingStep {
    /// Performs one step as usual, which loads the kernels and allocates the optimiser's state, and
    /// then captures the next step.
    ///
    /// `loss` computes a scalar from the two tensors. Their shapes are fixed, but [`Self::step`]
    /// changes their contents. Learning rate, momentum and weight decay keep their current values.
    ///
    /// # Errors
    ///
    /// Returns an error if the step fails, or something in `loss` cannot be captured: see
    /// [`Graph::capture`]. In this case, the step before the capture may already have been
    /// performed.
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

    /// Performs a step on the current contents of the inputs and targets.
    ///
    /// # Errors
    ///
    /// See [`ExecGraph::replay`].
    pub fn replay(&mut self) -> Result<()> {
        self.graph.replay()
    }

    /// Performs a step on another batch of the same shapes, which is copied into the inputs and
    /// targets.
    ///
    /// # Errors
    ///
    /// Returns an error if a shape, type or device differs, or if [`ExecGraph::replay`] returns
    /// one.
    pub fn step(&mut self, inputs: &Tensor, targets: &Tensor) -> Result<()> {
        self.inputs.copy_(inputs)?;
        self.targets.copy_(targets)?;
        self.replay()
    }

    /// The loss of the last replay, a scalar. It was computed before the parameters changed.
    #[must_use]
    pub fn loss(&self) -> &Tensor {
        &self.loss
    }
}
