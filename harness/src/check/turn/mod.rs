//! Who may run now, and who else may be at work meanwhile.

pub(crate) mod child;
pub(crate) mod company;
pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod libtest;
pub(crate) mod others;
