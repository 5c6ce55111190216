//! What users read is right, says what to do, and stays as it is.

mod files;
mod headlines;
mod hostile;
mod library;
mod nextest;
mod sample;
mod stacks;
mod texts;
