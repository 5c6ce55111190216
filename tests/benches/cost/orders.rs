//! The variants, and the orders that their processes receive through a pipe: one line for each
//! order and each answer.

use std::fmt;
use std::str::FromStr;

/// How a process is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Not observed: the wrappers only forward calls.
    Plain,
    /// Observed by a CUPTI subscriber to the same calls, whose callback returns immediately. No
    /// tracer can do less.
    Empty,
    /// Observed by the harness, without stacks.
    WithoutStacks,
    /// Observed by the harness.
    Ours,
}

impl Variant {
    /// The variants in the order of the table's columns.
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Empty, Self::WithoutStacks, Self::Ours];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Empty => "empty",
            Self::WithoutStacks => "without-stacks",
            Self::Ours => "ours",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let variant = Self::ALL.into_iter().find(|variant| variant.name() == name);
        variant.ok_or_else(|| format!("there is no variant `{name}`"))
    }
}

/// The orders that a worker can receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Return the name of this device.
    Device,
    /// Stay on this processor.
    Processor(u64),
    /// Allocate from a pool and free, this number of times.
    PoolPairs(u64),
    /// Create an event and destroy it, this number of times.
    EventPairs(u64),
    /// Run the program's loop once.
    Program,
    /// On each of sixteen threads at once, allocate from a pool and free, this number of times.
    ThreadPairs(u64),
    /// Like [`Self::ThreadPairs`], but with a pause of [`PAUSE`](crate::worker::PAUSE) before each
    /// call.
    PausedThreadPairs(u64),
    /// Begin and end a scope, this number of times.
    Scopes(u64),
    /// Run a first check, whose body does nothing.
    FirstCheck,
    /// Report this number of additional live records to the ledger.
    Fill(u64),
    /// Return the number of frames of the longest stack.
    LongestStack,
    /// Leave this number of resources behind in a scope, and report them.
    Report(u64),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => write!(f, "device 0"),
            Self::Processor(number) => write!(f, "processor {number}"),
            Self::PoolPairs(count) => write!(f, "pool {count}"),
            Self::EventPairs(count) => write!(f, "event {count}"),
            Self::Program => write!(f, "program 0"),
            Self::ThreadPairs(count) => write!(f, "threads {count}"),
            Self::PausedThreadPairs(count) => write!(f, "paused-threads {count}"),
            Self::Scopes(count) => write!(f, "scopes {count}"),
            Self::FirstCheck => write!(f, "first-check 0"),
            Self::Fill(count) => write!(f, "fill {count}"),
            Self::LongestStack => write!(f, "longest-stack 0"),
            Self::Report(count) => write!(f, "report {count}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || format!("there is no order `{line}`");
        let (word, count) = line.split_once(' ').ok_or_else(unknown)?;
        let count = count.parse().map_err(|_| unknown())?;
        match word {
            "device" => Ok(Self::Device),
            "processor" => Ok(Self::Processor(count)),
            "pool" => Ok(Self::PoolPairs(count)),
            "event" => Ok(Self::EventPairs(count)),
            "program" => Ok(Self::Program),
            "threads" => Ok(Self::ThreadPairs(count)),
            "paused-threads" => Ok(Self::PausedThreadPairs(count)),
            "scopes" => Ok(Self::Scopes(count)),
            "first-check" => Ok(Self::FirstCheck),
            "fill" => Ok(Self::Fill(count)),
            "longest-stack" => Ok(Self::LongestStack),
            "report" => Ok(Self::Report(count)),
            _ => Err(unknown()),
        }
    }
}
