//! Facts that the attribute states about a test.

use std::time::Duration;

/// The options of `#[gpu_leak_check(…)]`; `None` where the attribute is silent.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Allocated bytes that may stay, per device and layer, inclusive.
    pub tolerance: Option<u64>,
    /// Reserved bytes that may stay, per device and layer, inclusive.
    pub reserved_tolerance: Option<u64>,
    /// Whether a check with findings runs its body once more.
    pub confirm: Option<bool>,
    /// What a leak does to the test.
    pub on_leak: Option<OnLeak>,
    /// How long to wait for frees that are on their way.
    pub settle: Option<Duration>,
    /// When the body runs without being judged.
    pub unchecked_if: Option<UncheckedIf>,
}

impl Options {
    /// An attribute without options.
    pub const DEFAULT: Self = Self {
        tolerance: None,
        reserved_tolerance: None,
        confirm: None,
        on_leak: None,
        settle: None,
        unchecked_if: None,
    };

    /// These, and where they are silent what `other` says.
    #[must_use]
    pub(crate) fn or(&self, other: Self) -> Self {
        Self {
            tolerance: self.tolerance.or(other.tolerance),
            reserved_tolerance: self.reserved_tolerance.or(other.reserved_tolerance),
            confirm: self.confirm.or(other.confirm),
            on_leak: self.on_leak.or(other.on_leak),
            settle: self.settle.or(other.settle),
            unchecked_if: self.unchecked_if.or(other.unchecked_if),
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

/// `unchecked_if(condition, "reason")`.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedIf {
    /// Asked once, before the body.
    pub condition: fn() -> bool,
    /// Why; told in the run's summary.
    pub reason: &'static str,
}
