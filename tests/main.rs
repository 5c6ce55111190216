//! The claims.

mod conformance;
