//! The built command on the files that real checks wrote.

mod allow;
mod every_test;
mod exec;
mod page;
mod passing;
mod report;
mod support;
mod words;
