//! The variants, and what their processes are told over a pipe: a line an order, a line an answer.

use std::fmt;
use std::str::FromStr;

/// How a process is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Not at all: calls are passed on.
    Plain,
    /// By a subscriber to the same calls whose callback returns at once: what no tracer can avoid.
    Empty,
    /// By the harness, without stacks.
    WithoutStacks,
    /// By the harness.
    Ours,
}

impl Variant {
    /// In the order of the table's columns.
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

/// What a worker can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Say which device this is.
    Device,
    /// Stay on this processor.
    Processor(u64),
    /// Take from a pool and give back, so often.
    PoolPairs(u64),
    /// Create an event and destroy it, so often.
    EventPairs(u64),
    /// Run the program's loop once.
    Program,
    /// On sixteen threads at once, take from a pool and give back, so often each.
    ThreadPairs(u64),
    /// Begin and end a scope, so often.
    Scopes(u64),
    /// Do what the first check of a process does, with a body that does nothing.
    FirstCheck,
    /// Report so many more live records to the ledger.
    Fill(u64),
    /// Say how many frames the longest stack has.
    LongestStack,
    /// Leave so many things behind in a scope, and tell of them.
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
            "scopes" => Ok(Self::Scopes(count)),
            "first-check" => Ok(Self::FirstCheck),
            "fill" => Ok(Self::Fill(count)),
            "longest-stack" => Ok(Self::LongestStack),
            "report" => Ok(Self::Report(count)),
            _ => Err(unknown()),
        }
    }
}
