//! Recordings of real runs, judged again without a GPU.
//!
//! `GPU_LEAK_CHECK_RECORD=gpu-%p.jsonl cargo test` writes down what the ledger of each test program
//! is told and what its checks read (`%p` is the process's number). [`replay`] tells it to a ledger
//! of its own and gives the reports that the same judgement comes to: what a GPU once did can be
//! judged anywhere, by a later release as well.
//!
//! ```no_run
//! let replay = gpu_leak_check::recording::replay("gpu-4711.jsonl")?;
//! for report in &replay.reports {
//!     println!("{}: {}", report.test, report.status.name());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::path::Path;

pub use crate::capture::recording::Header;
pub use crate::check::Replay;
use crate::{check, config};

/// Judges every check in the recording at `path`. What an attribute or a configuration file allowed
/// at the time is not recorded: nothing may stay.
///
/// # Errors
///
/// When the file cannot be read, was written by a release with a later schema, or is no recording:
/// with its name and the line.
pub fn replay(path: impl AsRef<Path>) -> io::Result<Replay> {
    check::replay(path.as_ref(), &[])
}

/// As [`replay`], where what the `[[allow]]` entries of the configuration file at `file` name may
/// stay.
///
/// # Errors
///
/// As [`replay`], and when the configuration file is wrong: with its name and the line.
pub fn replay_allowing(path: impl AsRef<Path>, file: impl AsRef<Path>) -> io::Result<Replay> {
    let allowed = config::allowed_by(file.as_ref());
    let allowed = allowed.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
    check::replay(path.as_ref(), &allowed)
}
