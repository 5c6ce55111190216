//! Random programs: the body of a checked test as a tree of steps, and the generator of such
//! bodies.

use std::fmt;

use gpu_leak_tests::random::Random;

use super::allocators::{Allocator, Sum};
use super::sites::SITES;

/// A checked test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) settings: Settings,
    /// Whether a thread outside any scope exists alongside the test and runs steps for it.
    pub(super) has_neighbour: bool,
    pub(super) body: Vec<Step>,
}

/// The options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) tolerance: u64,
    pub(super) reserved_tolerance: u64,
    pub(super) confirm: bool,
    pub(super) rounds: u32,
    pub(super) warmup: u32,
    /// Whether a leak only causes a warning.
    pub(super) warns: bool,
}

impl Settings {
    pub(super) const DEFAULT: Self = Self {
        tolerance: 0,
        reserved_tolerance: 0,
        confirm: true,
        rounds: 1,
        warmup: 0,
        warns: false,
    };
}

/// One step, and the executions in which it has an effect, like code that depends on a static
/// counter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The index of the counter of the step's executions.
    pub(super) number: usize,
    pub(super) when: When,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    /// Has an effect only in this execution. Executions are counted from 1.
    Only(u32),
    /// Has an effect in all executions but the first.
    Later,
    Odd,
    Even,
}

impl When {
    /// Whether the step has an effect in the execution with this number, counted from 1.
    pub(super) const fn is(self, execution: u32) -> bool {
        match self {
            Self::Always => true,
            Self::Only(which) => execution == which,
            Self::Later => execution > 1,
            Self::Odd => !execution.is_multiple_of(2),
            Self::Even => execution.is_multiple_of(2),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Allocates a block.
    Take(Take),
    /// Reports one address as allocated in two places, and then frees both, one of them, or
    /// neither.
    Alias {
        allocator: Allocator,
        site: u8,
        bytes: u64,
        freed: bool,
    },
    /// Frees the oldest block of a list.
    FreeOldest { list: u8 },
    /// Changes a sum that only a probe knows, and may change it back.
    ChangeSum { sum: Sum, bytes: u64, back: bool },
    /// Makes the pool allocate a segment that stays empty.
    Reserve { bytes: u64 },
    /// Runs a block check.
    Check {
        settings: Settings,
        caught: bool,
        body: Vec<Step>,
    },
    /// Opens a scope for the body, and finishes or forgets it.
    Scope {
        finished: bool,
        asserted: bool,
        caught: bool,
        body: Vec<Step>,
    },
    /// Runs the body several times.
    Repeat { times: u32, body: Vec<Step> },
    /// Runs the body on a thread and joins it.
    Thread { body: Vec<Step> },
    /// Starts a thread that waits for work, unless this slot already has one.
    StartWorker { slot: u8 },
    /// Makes the thread in this slot run the body.
    OnWorker { slot: u8, body: Vec<Step> },
    /// Runs the body in `gpu_leak_hooks::allow`.
    Allow { body: Vec<Step> },
    /// Runs the body outside any scope.
    Unscoped { body: Vec<Step> },
    /// Makes the thread outside the test run the body.
    AskNeighbour { body: Vec<Step> },
    /// Panics.
    Panic,
}

/// The allocation of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Take {
    pub(super) allocator: Allocator,
    pub(super) place: u8,
    pub(super) bytes: u64,
    pub(super) site: u8,
    /// Whether a block of the pool is placed in the newest segment, if there is one.
    pub(super) in_newest: bool,
    pub(super) fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The block is freed when the body that allocated it ends.
    Dropped,
    /// The block is never freed.
    Lost,
    /// The block is kept in a static slot, and the block that was there is freed.
    Replaces { slot: u8 },
    /// The block is appended to a static list.
    Stored { list: u8 },
    /// The block is handed over to other code.
    HandedOver,
}

/// The number of slots. There are as many lists and as many workers.
pub(super) const SLOTS: u8 = 2;
/// The size of the segment that the pool allocates for a block.
pub(super) const SEGMENT: u64 = 2 << 20;
/// The smallest change to the sum of an allocator that also reports blocks. It exceeds the rounding
/// of a block.
const MIB: u64 = 1 << 20;

struct Generator {
    random: Random,
    steps: usize,
    sites: usize,
    numbers: usize,
    has_neighbour: bool,
}

/// Returns the program that belongs to this seed.
pub(super) fn generate(seed: u64) -> Program {
    let mut random = Random(seed);
    let has_neighbour = random.below(5) == 0;
    let mut generator = Generator {
        steps: 2 + random.below(8),
        random,
        sites: 0,
        numbers: 0,
        has_neighbour,
    };
    let settings = generator.settings();
    let mut body = Vec::new();
    while generator.steps > 0 {
        body.extend(generator.body(Surroundings::default()));
    }
    Program {
        settings,
        has_neighbour,
        body,
    }
}

/// The parts of a step's context that restrict which steps are possible.
#[derive(Clone, Copy, Default)]
struct Surroundings {
    depth: usize,
    /// Whether the step must be a plain one, because it is outside any scope or on another
    /// thread.
    is_plain: bool,
    /// Whether the step runs on the thread outside the test.
    is_neighbours: bool,
}

impl Surroundings {
    const fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }

    const fn plain(self) -> Self {
        Self {
            is_plain: true,
            ..self.deeper()
        }
    }
}

impl Generator {
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len())]
    }

    fn chance(&mut self, of: usize, in_all: usize) -> bool {
        self.random.below(in_all) < of
    }

    fn settings(&mut self) -> Settings {
        let tolerance = self.one_of(&[0, 0, 0, 0, 100, 100, 1000, 2 * MIB]);
        let rounds = self.one_of(&[1, 1, 1, 1, 1, 1, 1, 3, 4]);
        Settings {
            tolerance,
            reserved_tolerance: self.one_of(&[0, 0, 0, 0, 0, 0, MIB, SEGMENT]),
            confirm: !self.chance(1, 5),
            rounds,
            warmup: u32::from(self.chance(1, 12)),
            warns: self.chance(1, 8),
        }
    }

    /// Generates a body of a few steps, each with its own call site.
    fn body(&mut self, around: Surroundings) -> Vec<Step> {
        let wanted = 1 + self.random.below(4);
        let mut steps = Vec::new();
        let mut own_sites = Vec::new();
        for _ in 0..wanted {
            if self.steps == 0 {
                break;
            }
            self.steps -= 1;
            steps.push(self.step(around, &mut own_sites));
        }
        steps
    }

    fn step(&mut self, around: Surroundings, own_sites: &mut Vec<u8>) -> Step {
        self.numbers += 1;
        let number = self.numbers;
        let when = match self.random.below(20) {
            0..12 => When::Always,
            12 | 13 => When::Only(1),
            14 => When::Only(2),
            15 => When::Only(3),
            16 | 17 => When::Later,
            18 => When::Odd,
            _ => When::Even,
        };
        let action = self.action(around, own_sites);
        // A body that always panics would test little else.
        let when = match &action {
            Action::Panic if when == When::Always => When::Only(2),
            _ => when,
        };
        Step {
            number,
            when,
            action,
        }
    }

    fn action(&mut self, around: Surroundings, own_sites: &mut Vec<u8>) -> Action {
        let is_deep = around.depth >= 3;
        match self.random.below(40) {
            0..5 if !is_deep && !around.is_plain => Action::Check {
                settings: self.settings(),
                caught: self.chance(1, 3),
                body: self.body(around.deeper()),
            },
            5..8 if !is_deep && !around.is_plain => Action::Scope {
                finished: !self.chance(1, 8),
                asserted: self.chance(1, 3),
                caught: self.chance(1, 3),
                body: self.body(around.deeper()),
            },
            8 | 9 if !is_deep && !around.is_plain => Action::Thread {
                body: self.body(around.deeper()),
            },
            10 | 11 if !around.is_plain => Action::StartWorker {
                slot: self.one_of(&[0, 1]),
            },
            12 | 13 if !around.is_plain => Action::OnWorker {
                slot: self.one_of(&[0, 1]),
                body: self.body(around.plain()),
            },
            14 | 15 if !is_deep && !around.is_neighbours => Action::Allow {
                body: self.body(around.deeper()),
            },
            16 if !around.is_plain => Action::Unscoped {
                body: self.body(around.plain()),
            },
            17..20 if self.has_neighbour && !around.is_plain => Action::AskNeighbour {
                body: self.body(Surroundings {
                    is_neighbours: true,
                    ..around.plain()
                }),
            },
            20 | 21 => self.sum_change(),
            22 => Action::Reserve {
                bytes: self.one_of(&[MIB, SEGMENT]),
            },
            23 | 24 => Action::FreeOldest {
                list: self.one_of(&[0, 1]),
            },
            25 if !around.is_plain && self.chance(1, 3) => Action::Panic,
            26 | 27 if self.sites < SITES && !around.is_plain => Action::Alias {
                allocator: self.one_of(&[Allocator::Reporting, Allocator::Placed]),
                site: self.new_site(),
                bytes: self.one_of(&[64, 1000]),
                freed: self.chance(1, 3),
            },
            28 if !is_deep => Action::Repeat {
                times: self.one_of(&[2, 3]),
                body: self.body(around.deeper()),
            },
            _ => self.take(own_sites),
        }
    }

    fn sum_change(&mut self) -> Action {
        let sum = self.one_of(&Sum::ALL);
        Action::ChangeSum {
            sum,
            bytes: match sum {
                Sum::Silent => self.one_of(&[64, MIB]),
                Sum::Partly => self.one_of(&[MIB, 4 * MIB]),
            },
            back: self.chance(1, 3),
        }
    }

    fn take(&mut self, own_sites: &mut Vec<u8>) -> Action {
        let reuses = !own_sites.is_empty() && self.chance(1, 4);
        let site = match (reuses, self.sites < SITES) {
            (true, _) => self.one_of(own_sites),
            (false, true) => self.new_site(),
            (false, false) => return self.sum_change(),
        };
        own_sites.push(site);
        let slot = self.one_of(&[0, 1]);
        let allocator = match self.random.below(12) {
            0..7 => Allocator::Reporting,
            7 => Allocator::Second,
            8 => Allocator::Placed,
            9 => Allocator::Partly,
            _ => Allocator::Pool,
        };
        Action::Take(Take {
            allocator,
            place: u8::from(self.chance(1, 4)),
            bytes: self.one_of(&[1, 7, 40, 60, 100, 1000, 1000, 4096]),
            site,
            in_newest: self.chance(1, 3),
            fate: match self.random.below(12) {
                0..3 => Fate::Dropped,
                3..8 => Fate::Lost,
                8 | 9 => Fate::Replaces { slot },
                10 => Fate::Stored { list: slot },
                _ => Fate::HandedOver,
            },
        })
    }

    fn new_site(&mut self) -> u8 {
        let site = self.sites;
        self.sites += 1;
        u8::try_from(site).expect("few sites")
    }
}

impl Action {
    /// The steps inside this action, if it can contain any.
    pub(super) fn body(&self) -> Option<&Vec<Step>> {
        match self {
            Self::Check { body, .. }
            | Self::Scope { body, .. }
            | Self::Repeat { body, .. }
            | Self::Thread { body }
            | Self::OnWorker { body, .. }
            | Self::Allow { body }
            | Self::Unscoped { body }
            | Self::AskNeighbour { body } => Some(body),
            _ => None,
        }
    }

    pub(super) fn body_mut(&mut self) -> Option<&mut Vec<Step>> {
        match self {
            Self::Check { body, .. }
            | Self::Scope { body, .. }
            | Self::Repeat { body, .. }
            | Self::Thread { body }
            | Self::OnWorker { body, .. }
            | Self::Allow { body }
            | Self::Unscoped { body }
            | Self::AskNeighbour { body } => Some(body),
            _ => None,
        }
    }
}

/// Formats the program as readable code.
impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "test {}", self.settings)?;
        if self.has_neighbour {
            writeln!(out, "beside an unchecked thread")?;
        }
        lines(out, &self.body, 1)
    }
}

fn lines(out: &mut fmt::Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
    for Step {
        number,
        when,
        action,
    } in steps
    {
        write!(out, "{:width$}{number}: ", "", width = 2 * depth)?;
        match when {
            When::Always => {}
            When::Only(which) => write!(out, "in execution {which}: ")?,
            When::Later => write!(out, "in all but the first execution: ")?,
            When::Odd => write!(out, "in odd executions: ")?,
            When::Even => write!(out, "in even executions: ")?,
        }
        match action {
            Action::Take(Take {
                allocator,
                place,
                bytes,
                site,
                in_newest,
                fate,
            }) => {
                let newest = match (allocator, in_newest) {
                    (Allocator::Pool, true) => " in the newest segment",
                    _ => "",
                };
                writeln!(
                    out,
                    "take {bytes} B of {allocator:?}{newest} on place {place} at site {site}: {fate:?}"
                )?;
            }
            Action::Check {
                settings, caught, ..
            } => {
                let caught = if *caught { ", its panic caught" } else { "" };
                writeln!(out, "check {settings}{caught}")?;
            }
            Action::Scope {
                finished,
                asserted,
                caught,
                ..
            } => {
                let asserted = match (finished, asserted) {
                    (false, _) => ", never finished",
                    (true, true) => ", asserted",
                    (true, false) => "",
                };
                let caught = if *caught { ", its panic caught" } else { "" };
                writeln!(out, "scope{asserted}{caught}")?;
            }
            Action::Repeat { times, .. } => writeln!(out, "{times} times")?,
            Action::Thread { .. } => writeln!(out, "thread")?,
            Action::OnWorker { slot, .. } => writeln!(out, "on worker {slot}")?,
            Action::Allow { .. } => writeln!(out, "allow")?,
            Action::Unscoped { .. } => writeln!(out, "in no scope")?,
            Action::AskNeighbour { .. } => writeln!(out, "neighbour")?,
            plain => writeln!(out, "{plain:?}")?,
        }
        if let Some(body) = action.body() {
            lines(out, body, depth + 1)?;
        }
    }
    Ok(())
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "(tolerance {}, reserved tolerance {}, confirm {}, rounds {}, warmup {}, warns {})",
            self.tolerance,
            self.reserved_tolerance,
            self.confirm,
            self.rounds,
            self.warmup,
            self.warns
        )
    }
}
