//! The built command on the files that real checks wrote.

mod report;
mod support;
