//! What the tests share.

pub mod child;
