//! What contributed to an exceeded limit or to a layer's peak, and the allocations that could have
//! shared a buffer.

use serde::{Deserialize, Serialize};

use super::When;
use crate::ledger::Place;
use crate::units::{count, exact_size, quantity};

#[cfg(doc)]
use super::Row;

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
        named! {
            /// The kind of a limit.
            #[serde(rename_all = "snake_case")]
            pub enum Limit {
                $($(#[$doc])* $limit = stringify!($option),)*
            }
        }
    };
}
gpu_leak_check_options::budgets!(limits);

/// The peak of a layer at a place. Its lines add up to exactly the bytes of the peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Peak {
    /// The device, or the host.
    pub place: Place,
    /// The layer, as in [`Row::layer`].
    pub layer: String,
    /// The most bytes that were live at once.
    pub bytes: u64,
    /// The run of the body that had this peak, counted from 1.
    pub run: u64,
    /// The allocating or freeing call of that run that reached the peak, counted from 1. 0 if as
    /// much was live when the run began.
    pub call: u64,
    /// The number of allocating and freeing calls during the run, or 0 for a program that was
    /// watched from outside.
    pub calls: u64,
    /// The memory that was live at the peak, by source line, the largest first. If there are more
    /// than a hundred lines, the last entry is the sum of the rest.
    pub lines: Vec<Share>,
    /// Allocations of the run that could have shared one buffer, those with the largest savings
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reusable: Vec<Reusable>,
}

/// Allocations of one size at one source line, each of which was freed before the next was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Reusable {
    /// The source line, such as `src/optim.rs:88`.
    pub at: String,
    /// The size of each allocation.
    pub each: u64,
    /// The number of allocations.
    pub count: u64,
    /// The number of buffers that would be enough: one for each thread, stream and chain of
    /// callers.
    pub buffers: u64,
}

/// The memory of a graph whose allocations are not all live at the same time but have separate
/// addresses, so that the graph holds all of it at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct GraphMemory {
    /// The device.
    pub place: Place,
    /// The bytes of all addresses that the graph's nodes allocate.
    pub bytes: u64,
    /// The most bytes that are live at once if the nodes run in the order in which they were added.
    pub in_order: u64,
    /// The nodes that allocate, by source line.
    pub lines: Vec<Share>,
}

impl GraphMemory {
    /// Returns, for example, `a graph on cuda:0 holds 3.00 GiB at once, although running its nodes
    /// in the order in which they were added would need at most 1.00 GiB; …`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let lines = self.lines.iter().map(|share| {
            let allocations = quantity(share.count, "allocation");
            format!("{allocations}, {} at {}", exact_size(share.bytes), share.at)
        });
        let lines: Vec<_> = lines.collect();
        format!(
            "a graph on {} holds {} at once, although running its nodes in the order in which they \
             were added would need at most {}; the driver reuses memory only for a node that \
             depends on the one that freed it. The graph makes {}",
            self.place,
            exact_size(self.bytes),
            exact_size(self.in_order),
            lines.join("; ")
        )
    }
}

impl Reusable {
    /// Returns how many allocations would be saved if buffers were reused.
    #[must_use]
    pub const fn saved(&self) -> u64 {
        self.count.saturating_sub(self.buffers)
    }

    /// Returns, for example, `100 allocations of 1.00 MiB at src/optim.rs:88, each freed before the
    /// next was allocated: one buffer could serve them all, saving 99 allocations`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let served = match self.buffers {
            1 => "each freed before the next was allocated: one buffer could serve them all"
                .to_owned(),
            buffers => format!(
                "each freed before the same callers allocated the next one on the same thread and \
                 stream: {} could serve them all",
                quantity(buffers, "buffer")
            ),
        };
        format!(
            "{} of {} at {}, {served}, saving {}",
            quantity(self.count, "allocation"),
            exact_size(self.each),
            self.at,
            quantity(self.saved(), "allocation"),
        )
    }
}

impl Peak {
    /// Returns, for example, `the peak of 73.4 MiB in the layer driver on cuda:0 was reached at
    /// call 98 of 100`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let peak = format!(
            "the peak of {} in the layer {} on {}",
            exact_size(self.bytes),
            self.layer,
            self.place
        );
        let at_call = format!("{peak} was reached at call {}", count(self.call));
        match (self.call, self.calls) {
            (0, _) => format!("{peak} was reached before the first call"),
            (_, 0) => at_call,
            (_, of) => format!("{at_call} of {}", count(of)),
        }
    }
}

impl Share {
    /// Returns when it was allocated, if that is known: `calls 3 to 97`, `call 4; 2 before the
    /// check`, `before the check`.
    #[must_use]
    pub fn allocated(&self) -> Option<String> {
        let calls = self
            .when
            .map(|When { first, last, .. }| match first == last {
                true => format!("call {}", count(first)),
                false => format!("calls {} to {}", count(first), count(last)),
            });
        match (calls, self.earlier) {
            (None, 0) => None,
            (None, _) => Some("before the check".to_owned()),
            (Some(calls), 0) => Some(calls),
            (Some(calls), earlier) => Some(format!("{calls}; {} before the check", count(earlier))),
        }
    }
}
