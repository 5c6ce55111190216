//! What the harness promises, a module a claim.

mod attribute;
mod boundary;
mod conformance;
mod detects;
mod isolation;
mod output;
mod quiet;
mod recorded;
mod settings;
mod stand_ins;
