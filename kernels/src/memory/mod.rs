//! Memory of a device.

mod buffer;

pub use buffer::Buffer;
