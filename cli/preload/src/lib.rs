//! The library that the loader puts into an unmodified program and into all that it starts, by
//! `LD_PRELOAD`.
//!
//! Most of those are shells and compilers, which never ask for a GPU's driver: so this library is small,
//! and knows no more than names. When one of them is looked up or called, it loads the library beside it,
//! which has the harness in it, and whose table answers that same look-up.

#[cfg(all(feature = "library", target_os = "linux"))]
mod bring;
#[cfg(all(feature = "library", target_os = "linux"))]
mod functions;

/// The manifest of this package: what the command's build script builds.
pub const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
