//! The pages of the book that contain samples in Rust. They are the documentation of these modules,
//! so that rustdoc compiles the samples.

#[doc = include_str!("../../docs/first-steps.md")]
mod first_steps {}

#[doc = include_str!("../../docs/your-allocator.md")]
mod your_allocator {}

#[doc = include_str!("../../docs/coming-from.md")]
mod coming_from {}

#[doc = include_str!("../../docs/peaks.md")]
mod peaks {}
