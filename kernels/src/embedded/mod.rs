//! A simulated GPU in host memory: the same allocator, tensors and errors without a GPU.

mod config;
mod device;
mod fault;
mod memory;

pub use config::EmbeddedConfig;
pub use device::Embedded;

pub use crate::stream::EmbeddedStream;
