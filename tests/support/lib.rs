//! What the tests share.

pub mod child;
pub mod fake;
