//! What the attribute, the configuration file and [`Check`](crate::Check) say about a check.

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

macro_rules! define {
    ($($group:ident {
        $($(#[$doc:meta])* $name:ident: $kind:ident = $example:literal,)*
    })*) => {
        /// The options of `#[gpu_leak_check(…)]`; `None` where the attribute is silent.
        #[derive(Clone, Copy, Debug)]
        pub struct Options {
            $($($(#[$doc])* pub $name: Option<value_of!($kind)>,)*)*
            /// What may stay.
            pub allow: &'static [Allow],
        }

        impl Options {
            /// An attribute without options.
            pub const DEFAULT: Self = Self {
                $($($name: None,)*)*
                allow: &[],
            };

            /// These, and where they are silent what `other` says. Of what may stay, these alone.
            #[must_use]
            pub(crate) fn or(&self, other: Self) -> Self {
                Self {
                    $($($name: self.$name.or(other.$name),)*)*
                    allow: self.allow,
                }
            }
        }
    };
}
gpu_leak_check_options::options!(define);

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
        match gpu_leak_check_options::units::bytes(text) {
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

/// `unchecked_if(condition, "reason")`.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedIf {
    /// Asked once, before the body.
    pub condition: fn() -> bool,
    /// Why; told in the run's summary.
    pub reason: &'static str,
}
