//! Recordings of real runs, which can be judged again without a GPU.
//!
//! `GPU_LEAK_CHECK_RECORD=gpu-%p.jsonl cargo test` records the events that the ledger of each test
//! program receives and what its checks read (`%p` is the process id). `replay` applies these
//! events to a new ledger, judges the checks in the same way, and returns the reports. So a run on
//! a GPU can be judged again on any machine, even by a later release.
//!
//! ```ignore
//! let replay = gpu_leak_check::recording::replay("gpu-4711.jsonl")?;
//! for report in &replay.reports {
//!     println!("{}: {}", report.test, report.status.name());
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Recordings can be written without any feature. Reading them needs the feature `command`.

pub use crate::capture::recording::RecordingHeader;
#[cfg(any(test, fuzzing, feature = "command"))]
pub use crate::check::{Replay, replay};
