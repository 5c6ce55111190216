//! Tests of the built command on files that real checks wrote.

mod adopted;
mod allow;
mod browser;
mod cargo_passthrough;
mod every_test;
mod exec;
mod outputs;
mod page;
mod planted;
mod report;
mod shards;
mod small_commands;
mod strict;
mod support;
