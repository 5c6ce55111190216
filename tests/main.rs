//! The claims.

mod attribute;
mod fake_driver;
mod output;
mod conformance;
mod output;
