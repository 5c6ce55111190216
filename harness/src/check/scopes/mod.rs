//! Scopes, the threads that work in them, and the owners of their resources.

pub(crate) mod hooks;
pub(crate) mod open;
pub(crate) mod tree;
