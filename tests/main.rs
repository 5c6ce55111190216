//! The claims.

mod output;
