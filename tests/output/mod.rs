//! The output that users read is correct, says what to do, and does not change unnoticed.

mod files;
mod headlines;
mod hostile;
mod library;
mod nextest;
mod sample;
mod stacks;
mod texts;
