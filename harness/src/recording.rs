//! Recordings of real runs, which can be judged again without a GPU.
//!
//! `GPU_LEAK_CHECK_RECORD=gpu-%p.jsonl cargo test` records the events that the ledger of each test
//! program receives and what its checks read (`%p` is the process id). [`replay`] applies them to a
//! new ledger and returns the reports of the same judgement. So what a GPU did once can be judged
//! anywhere, even by a later release.
//!
//! ```ignore
//! let replay = gpu_leak_check::recording::replay("gpu-4711.jsonl")?;
//! for report in &replay.reports {
//!     println!("{}: {}", report.test, report.status.name());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Reading recordings needs the feature `command`; every check can write them.

#[cfg(any(test, fuzzing, feature = "command"))]
use std::io;
#[cfg(any(test, fuzzing, feature = "command"))]
use std::path::Path;

pub use crate::capture::recording::RecordingHeader;
#[cfg(any(test, fuzzing, feature = "command"))]
pub use crate::check::Replay;
#[cfg(any(test, fuzzing, feature = "command"))]
use crate::{check, config};

/// Judges every check in the recording at `path`. The `allow` entries of the attribute and the
/// configuration file are not recorded, so nothing is allowed to stay.
///
/// # Errors
///
/// If the file cannot be read, was written by a release with a later schema, or is not a recording.
/// The message names the file and the line.
#[cfg(any(test, fuzzing, feature = "command"))]
pub fn replay(path: impl AsRef<Path>) -> io::Result<Replay> {
    check::replay(path.as_ref(), &[])
}

/// Like [`replay`], with the `[[allow]]` entries of the configuration file at `file`.
///
/// ```no_run
/// let replay = gpu_leak_check::recording::replay_allowing("gpu-4711.jsonl", "gpu-leak-check.toml")?;
/// assert!(replay.reports.iter().all(|report| !report.status.is_failure()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Like [`replay`], and if the configuration file is wrong. The message names the file and the
/// line.
#[cfg(any(test, fuzzing, feature = "command"))]
pub fn replay_allowing(path: impl AsRef<Path>, file: impl AsRef<Path>) -> io::Result<Replay> {
    let file = file.as_ref();
    let allowed = config::allow_entries(file, &file.to_string_lossy());
    let allowed = allowed.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
    check::replay(path.as_ref(), &allowed)
}
