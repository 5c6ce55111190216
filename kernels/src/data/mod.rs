//! Data sets and the loader that makes batches of them, all in host memory.

mod dataset;
mod epoch;
mod loader;

pub use dataset::{Dataset, TensorDataset};
pub use epoch::Epoch;
pub use loader::DataLoader;
