//! Facts that the attribute states about a test.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ledger::Kind;

/// The options of `#[gpu_leak_check(…)]`; `None` where the attribute is silent.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Allocated bytes that may stay, per device and layer, inclusive.
    pub tolerance: Option<u64>,
    /// Reserved bytes that may stay, per device and layer, inclusive.
    pub reserved_tolerance: Option<u64>,
    /// The most bytes that what the test made may come to at once, per device, inclusive.
    pub max_allocated: Option<u64>,
    /// The most bytes that an allocator may hold beyond its baseline, per device, inclusive.
    pub max_reserved: Option<u64>,
    /// How many allocations the test may make, per device, inclusive.
    pub max_allocation_count: Option<u64>,
    /// The allocator whose figures the three limits are about; the driver where silent.
    pub layer: Option<&'static str>,
    /// How often the body runs in growth mode; 1 is one run, judged by what it leaves.
    pub rounds: Option<u32>,
    /// What may stay.
    pub allow: &'static [Allow],
    /// What the test is to leave, exactly.
    pub expect: Option<Expect>,
    /// Whether a check with findings runs its body once more.
    pub confirm: Option<bool>,
    /// What a leak does to the test.
    pub on_leak: Option<OnLeak>,
    /// How long to wait for frees that are on their way.
    pub settle: Option<Duration>,
    /// When the body runs without being judged.
    pub unchecked_if: Option<UncheckedIf>,
    /// Whether it shares the process with other such checks.
    pub parallel: Option<bool>,
    /// Whether it runs in a process of its own.
    pub isolate: Option<bool>,
    /// How often the body runs before it is measured.
    pub warmup: Option<u32>,
}

impl Options {
    /// An attribute without options.
    pub const DEFAULT: Self = Self {
        tolerance: None,
        reserved_tolerance: None,
        max_allocated: None,
        max_reserved: None,
        max_allocation_count: None,
        layer: None,
        rounds: None,
        allow: &[],
        expect: None,
        confirm: None,
        on_leak: None,
        settle: None,
        unchecked_if: None,
        parallel: None,
        isolate: None,
        warmup: None,
    };

    /// These, and where they are silent what `other` says.
    #[must_use]
    pub(crate) fn or(&self, other: Self) -> Self {
        Self {
            tolerance: self.tolerance.or(other.tolerance),
            reserved_tolerance: self.reserved_tolerance.or(other.reserved_tolerance),
            max_allocated: self.max_allocated.or(other.max_allocated),
            max_reserved: self.max_reserved.or(other.max_reserved),
            max_allocation_count: self.max_allocation_count.or(other.max_allocation_count),
            layer: self.layer.or(other.layer),
            rounds: self.rounds.or(other.rounds),
            // The file's entries are no part of these.
            allow: self.allow,
            expect: self.expect.or(other.expect),
            confirm: self.confirm.or(other.confirm),
            on_leak: self.on_leak.or(other.on_leak),
            settle: self.settle.or(other.settle),
            unchecked_if: self.unchecked_if.or(other.unchecked_if),
            parallel: self.parallel.or(other.parallel),
            isolate: self.isolate.or(other.isolate),
            warmup: self.warmup.or(other.warmup),
        }
    }
}

/// A number of bytes: a number, or text in B, KiB, MiB or GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// # Panics
///
/// When the text is no size, with what may stand there.
impl From<&str> for Size {
    fn from(text: &str) -> Self {
        match gpu_leak_check_units::bytes(text) {
            Ok(bytes) => Self(bytes),
            Err(why) => panic!("gpu-leak-check: {why}"),
        }
    }
}

/// What a leak does to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLeak {
    /// The test fails.
    Fail,
    /// The test passes and the report is printed.
    Warn,
}

/// `allow("fn:pattern*", reason = "…", kind = event, up_to = "1 MiB")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allow {
    /// `fn:`, `file:`, `lib:` with a pattern in which `*` and `?` stand for what may vary, or
    /// `fingerprint:` with one as reports have it.
    pub pattern: &'static str,
    /// Why it may stay; told in reports.
    pub reason: &'static str,
    /// Only resources of this kind.
    pub kind: Option<Kind>,
    /// No more than these bytes, inclusive.
    pub up_to: Option<u64>,
}

/// `expect(count = 2, bytes = "1 MiB")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// How many objects and allocations stay.
    pub count: Option<u64>,
    /// How many bytes stay.
    pub bytes: Option<u64>,
}

/// `unchecked_if(condition, "reason")`.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedIf {
    /// Asked once, before the body.
    pub condition: fn() -> bool,
    /// Why; told in the run's summary.
    pub reason: &'static str,
}
