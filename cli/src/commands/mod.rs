//! The subcommands, a file for each; the four cargo subcommands share one. `own_options` separates
//! their options from cargo's.

pub(crate) mod allow;
pub(crate) mod cargo_passthrough;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod every_test;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod own_options;
pub(crate) mod report;
