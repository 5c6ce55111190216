//! A small deep-learning library in PyTorch's terms.

pub mod autograd;
pub mod cuda;
pub mod data;
pub mod device;
pub mod embedded;
pub mod error;
pub mod memory;
pub mod nn;
pub mod optim;
pub mod planted;
pub mod programs;
pub mod tensor;
mod watch;

pub use autograd::{inference_mode, no_grad};
pub use device::{Backend, Device};
pub use embedded::EmbeddedConfig;
pub use error::{Error, Result};
pub use nn::TinyModel;
pub use tensor::{DType, HostTensor, Tensor, manual_seed};
