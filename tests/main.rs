//! The claims.

mod attribute;
