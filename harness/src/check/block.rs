//! A check of a block inside a test.

use std::cell::RefCell;
use std::panic::{Location, resume_unwind};
use std::process::ExitCode;
use std::time::Duration;

use super::annotated::{Caller, take_turn};
use super::assertion;
use super::body::End;
use super::outcome::{self, Outcome};
use super::scopes::open::is_inside_a_check;
use super::session::{Checked, Session, check, run_here, subject_at};
use crate::config::{self, Mode, Policy};
use crate::judge::Subject;
use crate::options::{Options, Size};
use crate::report::headline;

/// A check of a block inside a test, or in a program without tests.
///
/// ```
/// use gpu_leak_check::Check;
///
/// let loss = Check::new("one step").tolerance("1 KiB").run(|| {
///     // what is taken here is given back here
///     0.5
/// });
/// # assert_eq!(loss, 0.5);
/// ```
///
/// It is judged as a test is, by the same rules and options, and fails the test around it. The block
/// runs on the calling thread: what its thread-locals hold at its end counts, and so does what it
/// returns.
#[derive(Clone, Debug)]
#[must_use = "nothing is checked before `run`"]
pub struct Check {
    name: String,
    options: Options,
    at: &'static Location<'static>,
}

impl Check {
    /// A check of this name, without options.
    #[track_caller]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            options: Options::DEFAULT,
            at: Location::caller(),
        }
    }

    /// Bytes that may stay allocated, per device and layer, inclusive.
    pub fn tolerance(mut self, bytes: impl Into<Size>) -> Self {
        self.options.tolerance = Some(bytes.into().0);
        self
    }

    /// Bytes that may stay reserved, per device and layer, inclusive.
    pub fn reserved_tolerance(mut self, bytes: impl Into<Size>) -> Self {
        self.options.reserved_tolerance = Some(bytes.into().0);
        self
    }

    /// The most bytes that what the block made may come to at once, per device, inclusive.
    pub fn max_allocated(mut self, bytes: impl Into<Size>) -> Self {
        self.options.max_allocated = Some(bytes.into().0);
        self
    }

    /// The most bytes that an allocator may hold beyond its baseline, per device, inclusive.
    pub fn max_reserved(mut self, bytes: impl Into<Size>) -> Self {
        self.options.max_reserved = Some(bytes.into().0);
        self
    }

    /// How many allocations the block may make, per device, inclusive.
    pub fn max_allocation_count(mut self, count: u64) -> Self {
        self.options.max_allocation_count = Some(count);
        self
    }

    /// The allocator whose figures the three limits are about; the driver without.
    pub fn layer(mut self, allocator: &'static str) -> Self {
        self.options.layer = Some(allocator);
        self
    }

    /// Runs the block so often, and fails it only for what every run leaves more of.
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.options.rounds = Some(rounds);
        self
    }

    /// Runs the block so often before it is measured.
    pub fn warmup(mut self, runs: u32) -> Self {
        self.options.warmup = Some(runs);
        self
    }

    /// Whether a block with findings runs once more, so that only what repeats is a leak.
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.options.confirm = Some(confirm);
        self
    }

    /// How long to wait for frees that are on their way.
    pub fn settle(mut self, time: Duration) -> Self {
        self.options.settle = Some(time);
        self
    }

    /// Runs the block and fails if it left something; what its last run returned.
    ///
    /// # Panics
    ///
    /// With the block's own panic, with the report, or when the run's settings are wrong.
    pub fn run<T>(self, block: impl FnMut() -> T) -> T {
        let block = RefCell::new(block);
        let returned = RefCell::new(None);
        let subject = subject_at(&self.name, self.at);
        let policy = Policy::of(&self.name, None, &self.options)
            .unwrap_or_else(|why| outcome::fail_at(&subject, &why, ""));
        let suppressions = config::suppressions(&self.options, None)
            .unwrap_or_else(|why| outcome::fail_at(&subject, &why, ""));
        if policy.mode == Mode::Off {
            return block.borrow_mut()();
        }
        let turn = (!is_inside_a_check()).then(|| take_turn(&policy, Caller::Program));
        let session = Session::new(subject.clone(), policy, suppressions, turn);
        let body = |scope| {
            let keep = |value| drop(returned.replace(Some(value)));
            run_here(scope, || block.borrow_mut()(), keep)
        };
        match check(session, body) {
            Ok(checked) => conclude(&subject, checked),
            Err(end) => go_on(end),
        }
        let returned = returned.borrow_mut().take();
        returned.expect("a block that did not panic has returned")
    }
}

fn conclude(subject: &Subject, checked: Checked) {
    let Checked {
        end,
        report,
        outcome,
        unmet,
    } = checked;
    let failed = match unmet {
        Some(unmet) => Some(unmet),
        None => (outcome == Outcome::Fail).then(|| headline(&report)),
    };
    match (&end, failed) {
        (End::Passed, Some(failed)) => {
            assertion::fails(&report, &failed, true);
            outcome::fail_at(subject, &failed, &outcome::story(&report));
        }
        _ => outcome::tell_beside(&report, outcome),
    }
    go_on(end);
}

/// A block's own panic goes on its way.
fn go_on(end: End) {
    match end {
        End::Passed => {}
        End::Panicked(payload) => resume_unwind(payload),
        End::Failed(code) => debug_assert_ne!(code, ExitCode::SUCCESS, "a block returns no code"),
    }
}

/// Runs `body` up to `rounds` times, and fails if a place in the program holds more after each.
///
/// ```
/// use gpu_leak_check::assert_no_growth;
///
/// assert_no_growth(5, || { /* one iteration */ });
/// ```
///
/// # Panics
///
/// With the report of what grows, or with the body's own panic.
#[track_caller]
pub fn assert_no_growth(rounds: u32, body: impl FnMut()) {
    Check::new("assert_no_growth").rounds(rounds).run(body);
}
