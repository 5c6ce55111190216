//! What the harness promises, a module a claim.

mod attribute;
mod boundary;
mod conformance;
mod detects;
mod kinds;
mod output;
mod quiet;
mod regressions;
mod stand_ins;
