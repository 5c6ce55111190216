//! A small deep-learning library in PyTorch's terms.

pub mod cuda;
pub mod device;
pub mod embedded;
pub mod error;
pub mod memory;
mod watch;

pub use device::{Backend, Device};
pub use embedded::EmbeddedConfig;
pub use error::{Error, Result};
