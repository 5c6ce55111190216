//! The format of a recording: one JSON object per line, from which a program can judge the run
//! again.
//!
//! The first line is a header. It is followed by the events, in the order in which the ledger
//! applied them. Each backtrace comes before the first event that can refer to it. The lines of the
//! [checks](crate::check) are among the events. [`record`](super::record) writes recordings, and
//! [`replay`](super::replay) reads them.

use serde::{Deserialize, Serialize};

use crate::judge::{CheckInput, Subject};
use crate::ledger::StackId;
use crate::ledger::event::Ticket;
use gpu_leak_core::report::Frame;

/// The value of `schema` in the header.
pub(crate) const SCHEMA: &str = "gpu-leak-check-recording";
/// The version of the format, which is raised when a reader of the old version would misunderstand
/// the file.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A line. `E` is the event or its JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Line<E> {
    /// The first line.
    Header(RecordingHeader),
    /// A stack. Each stack is written once.
    Stack(Stack),
    Event(RecordedEvent<E>),
    /// The frames at a return address.
    Symbol(RecordedSymbol),
    /// The beginning of a check.
    CheckBegan(Subject),
    /// The end of a check.
    Check(Box<CheckInput>),
}

/// Describes the writer of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordingHeader {
    /// `gpu-leak-check-recording`
    pub schema: String,
    /// The version of the format, which is raised when a reader of the old version would
    /// misunderstand the file.
    pub schema_version: u32,
    /// The release of gpu-leak-check that wrote the recording.
    pub version: String,
    /// The program's file name.
    pub program: String,
    /// The process ID.
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stack {
    pub(crate) id: StackId,
    /// The return addresses, innermost first.
    pub(crate) addresses: Vec<usize>,
}

/// An event and the ledger's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedEvent<E> {
    /// The number of the event, counted from 1 without gaps.
    pub(crate) order: u64,
    pub(crate) event: E,
    /// The ticket of a free or a launch, to which the event for its end refers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ticket: Option<Ticket>,
    /// The time of the event, in microseconds since 1970 in UTC. It does not affect the judgement.
    pub(crate) at_us: u64,
}

/// A return address, with the frames to which the recorded process resolved it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordedSymbol {
    pub(crate) address: usize,
    /// The frames at the address, innermost first. There is more than one if calls were inlined.
    pub(crate) frames: Vec<Frame>,
}
