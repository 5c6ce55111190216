//! A small project that uses burn on a GPU. As in any other project, nothing here depends on the
//! checks.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{Backend, BackendTypes};
use burn::tensor::{Distribution, Tensor};

/// The backend that everything here uses.
#[cfg(feature = "cuda")]
pub type Gpu = burn::backend::Cuda<f32, i32>;
/// The backend that everything here uses.
#[cfg(feature = "vulkan")]
pub type Gpu = burn::backend::Vulkan<f32, i32>;

/// A device of this backend. The default is the first device.
pub type Device = <Gpu as BackendTypes>::Device;

/// A model with two layers.
#[derive(Module, Debug)]
struct Model<B: Backend> {
    first: Linear<B>,
    activation: Relu,
    second: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            first: LinearConfig::new(32, 64).init(device),
            activation: Relu::new(),
            second: LinearConfig::new(64, 8).init(device),
        }
    }

    fn forward(&self, input: Tensor<B, 2>) -> Tensor<B, 2> {
        self.second
            .forward(self.activation.forward(self.first.forward(input)))
    }
}

/// Trains a model on random data. Returns the loss of each step.
pub fn train(device: &Device, steps: usize) -> Vec<f32> {
    let mut model = Model::<Autodiff<Gpu>>::new(device);
    let mut optimizer = AdamConfig::new().init();
    let input = Tensor::random([128, 32], Distribution::Normal(0., 1.), device);
    let target = Tensor::random([128, 8], Distribution::Normal(0., 1.), device);
    let mut losses = Vec::new();
    for _ in 0..steps {
        let output = model.forward(input.clone());
        let loss = MseLoss::new().forward(output, target.clone(), Reduction::Mean);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model, gradients);
        losses.push(loss.into_scalar());
    }
    losses
}
