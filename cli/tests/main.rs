//! The built command on the files that real checks wrote.

mod adopted;
mod allow;
mod outputs;
mod page;
mod passing;
mod report;
mod shards;
mod support;
mod words;
