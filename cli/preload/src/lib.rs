//! The library that is preloaded (`LD_PRELOAD`) into an unmodified program and all of its child
//! processes.
//!
//! Most of these processes are shells and compilers, which never use a GPU driver. So this library
//! is small: it contains only the names of the driver's functions. When one of them is looked up or
//! called, this library loads the library next to it, which contains the harness, and the harness's
//! wrappers answer the same look-up.

#[cfg(all(feature = "library", target_os = "linux"))]
mod functions;
#[cfg(all(feature = "library", target_os = "linux"))]
mod load_the_harness;

/// The manifest of this package, which the build script of the command builds.
pub const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
