//! Recordings of real runs, which can be judged again without a GPU.
//!
//! `GPU_LEAK_CHECK_RECORD=gpu-%p.jsonl cargo test` records the events that the ledger of each test
//! program receives and what its checks read (`%p` is the process id). [`replay`] applies them to a
//! new ledger and returns the reports of the same judgement. So a run on a GPU can be judged again
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

pub use crate::capture::recording::RecordingHeader;
#[cfg(any(test, fuzzing, feature = "command"))]
pub use crate::check::{Replay, replay};
