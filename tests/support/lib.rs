//! What the tests share.

pub mod checked;
pub mod child;
pub mod fake;
pub mod gpu;
pub mod published;
pub mod random;
