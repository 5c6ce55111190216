//! The record of what a program did, step by step, and of what the harness reported about it.

use gpu_leak_check::report::check_report::Report;

use super::allocators::{Allocator, Sum};
use super::program::Settings;

/// The position of an event in the order of all events.
pub(super) type Tick = u64;

/// A record of everything that one program did.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) has_neighbour: bool,
    /// The sessions: the test first, then the others in the order in which they began.
    pub(super) sessions: Vec<Session>,
    pub(super) runs: Vec<Run>,
    pub(super) blocks: Vec<Block>,
    pub(super) sum_changes: Vec<SumChange>,
    pub(super) segments: Vec<Reserved>,
    now: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Test,
    Check,
    Scope,
}

/// A test, a block or a manual scope.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) kind: Kind,
    pub(super) settings: Settings,
    /// The run that surrounds this test, block or scope.
    pub(super) parent: Option<usize>,
    /// Whether the session is inside code that allows all its allocations to stay.
    pub(super) is_allowed: bool,
    /// Whether the surrounding code would catch the session's panic.
    pub(super) is_caught: bool,
    /// The runs of the session, without warm-ups.
    pub(super) runs: Vec<usize>,
    pub(super) report: Option<Report>,
    /// Whether the session ended with a panic, either of its body or its own.
    pub(super) panicked: bool,
    pub(super) is_over: bool,
}

/// One run of a body.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) session: usize,
    pub(super) began: Tick,
    pub(super) ended: Option<Tick>,
    pub(super) panicked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A thread that works for this run.
    Run(usize),
    /// A thread of the program outside any scope.
    Nobody,
    /// The thread outside the program.
    Neighbour,
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) allocator: Allocator,
    pub(super) place: u8,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) site: u8,
    pub(super) owner: Owner,
    pub(super) made: Tick,
    pub(super) freed: Option<Tick>,
    pub(super) is_allowed: bool,
    pub(super) handed_over: Option<Tick>,
    /// The time at which one of two blocks at this address was freed. It is unknown which one.
    pub(super) ambiguous: Option<Tick>,
}

/// A change to a sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct SumChange {
    pub(super) sum: Sum,
    pub(super) by: Owner,
    pub(super) at: Tick,
    pub(super) bytes: i64,
}

/// The allocation of a segment by the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) by: Owner,
    pub(super) at: Tick,
}

impl Trace {
    pub(super) fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    /// The session that a run belongs to.
    pub(super) fn session_of(&self, run: usize) -> &Session {
        &self.sessions[self.runs[run].session]
    }

    /// The run that owns the current work of a thread that was started in `home`: that run itself,
    /// the next run of the same session, or a surrounding run.
    pub(super) fn answering(&self, home: usize) -> Option<usize> {
        let mut home = Some(home);
        while let Some(run) = home {
            let session = self.session_of(run);
            let is_under_way = |run: &&usize| self.runs[**run].ended.is_none();
            if self.runs[run].ended.is_none() {
                return Some(run);
            }
            if let Some(later) = session.runs.iter().find(is_under_way) {
                return Some(*later);
            }
            home = session.parent;
        }
        None
    }

    /// The owner of the current work of a thread that belongs to `home`.
    pub(super) fn owner(&self, home: Owner) -> Owner {
        match home {
            Owner::Run(home) => self.answering(home).map_or(Owner::Nobody, Owner::Run),
            other => other,
        }
    }

    /// The run of `session` that contains `run`, or `run` itself.
    pub(super) fn run_of(&self, session: usize, run: usize) -> Option<usize> {
        let mut at = Some(run);
        while let Some(run) = at {
            if self.runs[run].session == session {
                return Some(run);
            }
            at = self.session_of(run).parent;
        }
        None
    }
}
