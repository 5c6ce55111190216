//! Code that the tests share.

#[cfg(doctest)]
mod book;
pub mod checked;
pub mod child;
pub mod fake;
pub mod gpu;
pub mod library;
pub mod nextest;
pub mod published;
pub mod random;
