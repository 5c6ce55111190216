//! The attribute of `gpu-leak-check`. Use it through that crate, which documents it.
