//! Data sets, and the loader that divides them into batches, all in host memory.

mod dataset;
mod epoch;
mod loader;

pub use dataset::{Dataset, TensorDataset};
pub use epoch::Epoch;
pub use loader::DataLoader;
