//! The watched GPU APIs, each of which is a table of functions, and the code that their wrappers
//! share.

pub(crate) mod cuda;
mod interception;
mod pointer;
mod start;
pub(crate) mod vulkan;
mod wrapper;

pub(crate) use interception::{Interception, Missed, MissedBefore, begin_check, cuda_interception};
pub(crate) use start::{Reach, reach};
pub use wrapper::before_initialisation;
pub(crate) use wrapper::stop;
