//! From a finished check to what people and programs read.

pub mod model;
