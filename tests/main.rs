//! The claims.

mod attribute;
mod conformance;
mod output;
