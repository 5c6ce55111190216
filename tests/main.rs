//! The claims.

mod attribute;
mod output;
mod conformance;
