//! The watched GPU APIs, each a table of functions, and the code that their wrappers share.

pub(crate) mod cuda;
mod pointer;
pub(crate) mod vulkan;
mod wrapper;

pub use wrapper::before_initialisation;
pub(crate) use wrapper::stop;
