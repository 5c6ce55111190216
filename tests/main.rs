//! The claims.

mod attribute;
mod output;
