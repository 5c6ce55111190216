//! Which checks may run now, and what else may be active at the same time.

pub(crate) mod child;
pub(crate) mod concurrency;
pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod libtest;
