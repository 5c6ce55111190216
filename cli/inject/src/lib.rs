//! The harness for an unmodified program: `gpu-leak-preload`, which stands in every program, loads it into
//! those that ask for the driver.
//!
//! The harness in it listens to the driver's calls, as in a checked test, and judges what they make from
//! the moment at which the program initialises the driver; `ending` tells it of the process's
//! end, `watcher` of ticks and of signals. Everything that is judged, is judged by the harness.

#[cfg(all(feature = "library", target_os = "linux"))]
mod ending;
#[cfg(all(feature = "library", target_os = "linux"))]
mod entry;
#[cfg(all(feature = "library", target_os = "linux"))]
mod signals;
#[cfg(all(feature = "library", target_os = "linux"))]
mod watcher;

/// The manifest of this package: what the command's build script builds.
pub const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
