//! The options of a check, as set by the attribute, the configuration file and
//! [`Check`](crate::Check).

use std::time::Duration;

pub use crate::judge::Expect;
use crate::ledger::Kind;

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

/// Whether a value is something other than a written-out default, by the option's kind.
macro_rules! is_on {
    (flag, $value:expr) => {
        $value == Some(true)
    };
    (switch, $value:expr) => {
        $value == Some(true)
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
        /// The options of `#[gpu_leak_check(…)]`; `None` where the attribute sets none.
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

            /// Takes the options that are not set from `other`. The `allow` entries are not merged.
            #[must_use]
            pub(crate) fn or(&self, other: Self) -> Self {
                Self {
                    $($($name: self.$name.or(other.$name),)*)*
                    allow: self.allow,
                }
            }

            /// Checks the options of one place: an attribute, a `Check`, or a table of the file. An
            /// option that is set at a more specific place may contradict a general one.
            ///
            /// # Errors
            /// A sentence with the options, the problem and what to do.
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

/// A size in bytes: a number, or text in B, KiB, MiB or GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl From<u64> for Size {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

/// # Panics
///
/// Panics if the text is not a size; the message lists the accepted forms.
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

/// `allow("fn:pattern*", reason = "kept until the process ends", kind = event, up_to = "1 MiB")`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allow {
    /// `at:`, `fn:`, `file:` or `lib:` followed by a pattern with the wildcards `*` and `?`, or
    /// `fingerprint:` followed by a fingerprint from a report.
    pub pattern: &'static str,
    /// The reason why it may stay, which reports show.
    pub reason: &'static str,
    /// If set, only resources of this kind match.
    pub kind: Option<Kind>,
    /// The most bytes that may stay, inclusive.
    pub up_to: Option<u64>,
}

/// `unchecked_if(condition, "reason")`.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedIf {
    /// Evaluated once, before the body.
    pub condition: fn() -> bool,
    /// The reason, which the run's summary shows.
    pub reason: &'static str,
}
