//! Tests of what the harness promises its users, with one module for each promise.

mod attribute;
mod boundary;
mod conformance;
mod detects;
mod devices;
mod faults;
mod heard;
mod holders;
mod hooks;
mod inside;
mod isolation;
mod kinds;
mod limits;
mod output;
mod pages;
mod peaks;
mod python;
mod quiet;
mod races;
mod recorded;
mod regressions;
mod settings;
mod soak;
mod stand_ins;
