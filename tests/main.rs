//! What the harness promises, a module a claim.

mod attribute;
mod boundary;
mod conformance;
mod detects;
mod devices;
mod hooks;
mod inside;
mod isolation;
mod kinds;
mod limits;
mod output;
mod quiet;
mod races;
mod recorded;
mod referrers;
mod regressions;
mod settings;
mod stand_ins;
