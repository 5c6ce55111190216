//! Neural networks: modules with parameters.

mod activation;
mod init;
mod linear;
mod module;
mod sequential;
mod tiny_model;

pub use activation::{ReLU, Softmax};
pub use linear::Linear;
pub use module::Module;
pub use sequential::Sequential;
pub use tiny_model::TinyModel;
