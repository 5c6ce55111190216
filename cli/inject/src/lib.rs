//! The harness for an unmodified program. `gpu-leak-preload` is preloaded into every program. It
//! loads the harness into the programs that look up a function of the driver.
//!
//! The harness watches the driver's calls as in a checked test, from the moment when the program
//! initialises the driver. `lifecycle` attaches it and finishes the judgement when the process
//! exits; `watcher` takes snapshots. The harness does all of the judging.

#[cfg(all(feature = "library", target_os = "linux"))]
mod lifecycle;
#[cfg(all(feature = "library", target_os = "linux"))]
mod signals;
#[cfg(all(feature = "library", target_os = "linux"))]
mod watcher;

/// The manifest of this package, which the build script of the command builds.
pub const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
