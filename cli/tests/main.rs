//! The built command on the files that real checks wrote.

mod allow;
mod browser;
mod page;
mod passing;
mod report;
mod support;
mod words;
