//! A limit of a test that was exceeded, and what contributed to it.

use serde::{Deserialize, Serialize};

use super::{Reusable, When};

/// A limit of the test that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Budget {
    /// The option that sets the limit, such as `max_allocated`.
    pub limit: Limit,
    /// The limit, in bytes or allocations.
    pub allowed: u64,
    /// The amount that the test reached.
    pub reached: u64,
    /// The source lines that contributed, the largest first. For `max_allocated`, these are the
    /// lines that allocated the memory live at the peak. The shares add up to the amount that the
    /// test reached. If there are many lines, the last entry is the sum of the rest. Empty for a
    /// reserve.
    pub shares: Vec<Share>,
    /// For `max_allocated`, the call that reached the peak. None if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// For amounts counted over the whole test, the allocations that could have shared one buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reusable: Vec<Reusable>,
}

/// The contribution of one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Share {
    /// The number of allocations.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The source line, such as `src/optim.rs:88`, or `12 other lines`.
    pub at: String,
    /// For allocations live at a peak, the calls that made the first and the last of them. None if
    /// all were live before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How many of these allocations were live before the run.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub earlier: u64,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $option:ident: $limit:ident,)*) => {
        /// The kind of a limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum Limit {
            $($(#[$doc])* $limit,)*
        }

        impl Limit {
            /// All limits.
            pub const ALL: &[Self] = &[$(Self::$limit),*];

            /// Returns the option that sets the limit.
            #[must_use]
            pub const fn option(self) -> &'static str {
                match self {
                    $(Self::$limit => stringify!($option),)*
                }
            }
        }
    };
}
gpu_leak_check_options::budgets!(limits);
