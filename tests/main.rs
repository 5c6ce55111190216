//! What the harness promises, a module a claim.

mod attribute;
mod boundary;
mod conformance;
mod detects;
mod fake_driver;
mod output;
mod quiet;
