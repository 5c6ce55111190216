//! The built command on the files that real checks wrote.

mod adopted;
mod allow;
mod browser;
mod every_test;
mod exec;
mod outputs;
mod page;
mod passing;
mod planted;
mod report;
mod shards;
mod support;
mod words;
