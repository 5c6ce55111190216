//! The subcommands, each in its own file. The four subcommands that run cargo share a file.
//! `own_options` separates their options from cargo's.

pub(crate) mod allow;
mod cargo_arguments;
pub(crate) mod cargo_passthrough;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod every_test;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod own_options;
pub(crate) mod report;
