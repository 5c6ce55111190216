//! What users read is correct and says what to do, and no change to it goes unnoticed.

mod files;
mod headlines;
mod hostile;
mod library;
mod nextest;
mod sample;
mod stacks;
mod texts;
