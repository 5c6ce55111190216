//! Whose work it is: scopes, the threads that work for them, and who answers for which.

pub(crate) mod hooks;
pub(crate) mod members;
mod numbers;
pub(crate) mod open;
pub(crate) mod token;
mod tree;
