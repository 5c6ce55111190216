//! A numbered course; see the examples.
