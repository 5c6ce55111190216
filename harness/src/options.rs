//! The options of a check, as set by the attribute, the configuration file and
//! [`Check`](crate::Check).

use std::time::Duration;

pub use crate::judge::Expect;
use gpu_leak_core::ledger::Kind;

/// The type of an option's value, by its kind in the [table](gpu_leak_check_options::options).
macro_rules! value_of {
    (size) => { u64 };
    (number) => { u64 };
    (runs) => { u32 };
    (rounds) => { u32 };
    (layer) => { &'static str };
    (flag) => { bool };
    (switch) => { bool };
    (on_leak) => { OnLeak };
    (duration) => { Duration };
    (expect) => { Expect };
    (unchecked_if) => { UncheckedIf };
}
pub(crate) use value_of;

/// Whether an option of this kind is set to something other than its default.
macro_rules! is_on {
    (flag, $value:expr) => {
        $value == Some(true)
    };
    (switch, $value:expr) => {
        $value == Some(true)
    };
    (size, $value:expr) => {
        $value.is_some_and(|bytes| bytes > 0)
    };
    (rounds, $value:expr) => {
        $value.is_some_and(|rounds| rounds > 1)
    };
    ($other:ident, $value:expr) => {
        $value.is_some()
    };
}

macro_rules! define {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)*
    })*) => {
        /// The options of `#[gpu_leak_check(…)]`. Those that are not set are `None`.
        #[derive(Clone, Copy, Debug)]
        pub struct Options {
            $($($(#[$doc])* pub $name: Option<value_of!($kind)>,)*)*
            /// The entries for resources that may stay.
            pub allow: &'static [Allow],
        }

        impl Options {
            /// An attribute without options.
            pub const DEFAULT: Self = Self {
                $($($name: None,)*)*
                allow: &[],
            };

            /// Returns these options, with those that are not set taken from `other`. The `allow`
            /// entries are not merged.
            #[must_use]
            pub(crate) fn or(&self, other: Self) -> Self {
                Self {
                    $($($name: self.$name.or(other.$name),)*)*
                    allow: self.allow,
                }
            }

            /// Checks the options that are set in one place: in an attribute, on a `Check`, or in a
            /// table of the file. Options that are set in different places may contradict each
            /// other, because the more specific place takes precedence.
            ///
            /// # Errors
            /// Returns a sentence that names the options, the problem and what to do about it.
            pub(crate) fn check(&self) -> Result<(), &'static str> {
                let is_on = |option: &str| match option {
                    $($(stringify!($name) => is_on!($kind, self.$name),)*)*
                    _ => false,
                };
                self.rounds.map_or(Ok(1), gpu_leak_check_options::rounds)?;
                let conflict = gpu_leak_check_options::conflicts(is_on).next();
                conflict.map_or(Ok(()), |conflict| Err(conflict.why))
            }
        }
    };
}
gpu_leak_check_options::options!(define);

/// A size in bytes, given as a number or as text in B, KiB, MiB or GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// # Panics
///
/// Panics if the text is not a size. The message lists the accepted forms.
impl From<&str> for Size {
    fn from(text: &str) -> Self {
        match gpu_leak_check_options::units::bytes(text) {
            Ok(bytes) => Self(bytes),
            Err(why) => panic!("gpu-leak-check: {why}"),
        }
    }
}

/// The effect of a leak on the test's outcome.
///
/// ```
/// use gpu_leak_check::{Check, OnLeak};
///
/// Check::new("step").on_leak(OnLeak::Warn).run(|| { /* … */ });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLeak {
    /// The test fails.
    Fail,
    /// The test passes and the report is printed.
    Warn,
}

/// An `allow` entry, such as `allow("fn:pattern*", reason = "kept until the process ends", kind =
/// event, up_to = "1 MiB")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allow {
    /// `at:`, `fn:`, `file:` or `lib:` followed by a pattern with the wildcards `*` and `?`, or
    /// `fingerprint:` followed by a fingerprint from a report.
    pub pattern: &'static str,
    /// The reason why the resources may stay. Reports show it.
    pub reason: &'static str,
    /// If set, only resources of this kind match.
    pub kind: Option<Kind>,
    /// The most bytes that may stay, inclusive.
    pub up_to: Option<u64>,
}

/// The `unchecked_if(condition, "reason")` option.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedIf {
    /// Evaluated once, before the body.
    pub condition: fn() -> bool,
    /// The reason, which the run's summary shows.
    pub reason: &'static str,
}
