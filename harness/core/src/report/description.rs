//! Formats a finding as one line.

use std::fmt;

use super::{
    Budget, Companion, Consequence, FailedFree, Finding, Frame, Limit, Passage, PassageKind,
    Sibling, Site, verbs,
};
use crate::escape;
use crate::ledger::{Amount, Kind, Layer, Place};
use crate::units::{count, exact_size, listed, quantity, with_size};

/// Formats as one line: the kind of the finding, its subject, the device and the call site.
///
/// ```
/// # use gpu_leak_core::ledger::{Kind, Layer, Place};
/// # use gpu_leak_core::report::{Finding, FindingKind, Site};
/// let mut finding = Finding::new(
///     FindingKind::Leaked,
///     Layer::DRIVER,
///     Place::cuda(0),
///     Site::default(),
/// );
/// (finding.resource, finding.count, finding.bytes) = (Some(Kind::Linear), 1, 4096);
/// assert_eq!(
///     finding.to_string(),
///     "leaked: 4.00 KiB device memory, linear, on cuda:0, at an unknown place"
/// );
/// ```
impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.kind.name(), self.what())?;
        // If the place is the host, the subject already says so.
        if self.place != Place::HOST {
            write!(out, ", on {}", escape::name(&self.place.to_string()))?;
        }
        write!(out, ", at {}", self.location())
    }
}

impl Finding {
    /// Returns the call site that a report points at: the call site of the free if one failed,
    /// otherwise the call site of the allocation.
    #[must_use]
    pub fn shown_site(&self) -> &Site {
        let failed = self.failed.as_ref();
        failed.map_or(&self.site, |failed| &failed.site)
    }

    /// Returns the frame that a report shows first, and the frame of the wrapper through which its
    /// function called the API, if there is one.
    #[must_use]
    pub fn shown_frames(&self) -> Option<(Frame, Option<&Frame>)> {
        let site = self.shown_site();
        let frame = site.outside_wrapper().user_frame()?.clone();
        let inner = site.user_frame().filter(|inner| **inner != frame);
        Some((frame, inner))
    }

    /// Returns the location that a report shows first, such as `src/optim.rs:88`.
    #[must_use]
    pub fn location(&self) -> String {
        self.shown_site().outside_wrapper().location()
    }

    /// Returns the subject of a finding: `2 × 512 KiB device memory, stream-ordered`.
    #[must_use]
    pub fn what(&self) -> String {
        if let Some(budget) = &self.budget {
            return exceeded(budget, self);
        }
        let Some(kind) = self.resource else {
            if self.failed.is_some() {
                return self.amount().text("object");
            }
            return format!("{} reserved by {}", exact_size(self.bytes), allocator(self));
        };
        if kind.is_handle() {
            return with_size(quantity(self.count, kind.noun()), self.bytes);
        }
        let memory = memory(kind, self.layer, self.place);
        match (self.bytes, self.count, self.each) {
            // This is a free of an address that was never allocated.
            (0, frees, _) if self.failed.is_some() => {
                format!("{} of {memory}", quantity(frees, "free"))
            }
            (bytes, 1, _) => format!("{} {memory}", exact_size(bytes)),
            (_, many, Some(each)) => format!("{} × {} {memory}", count(many), exact_size(each)),
            (_, _, None) => match self.sizes_that_differ() {
                Some(sizes) => format!("{sizes} {memory}"),
                None => format!("{} {memory}", self.amount().text("allocation")),
            },
        }
    }

    /// Returns text such as `2 × 1.00 KiB and 2.25 KiB`, or `None` if not all sizes are known.
    fn sizes_that_differ(&self) -> Option<String> {
        let total = self.sizes.iter().copied().reduce(Amount::plus)?;
        let one = |of_size: &Amount| match of_size.count {
            0 | 1 => exact_size(of_size.bytes),
            many => format!("{} × {}", count(many), exact_size(of_size.bytes / many)),
        };
        let sizes: Vec<_> = self.sizes.iter().map(one).collect();
        (total == self.amount()).then(|| listed(&sizes))
    }

    /// Returns the relation of a passage to the finding: `for comparison: others were freed here`.
    #[must_use]
    pub fn says(&self, passage: &Passage) -> String {
        let (created, freed) = self.verbs();
        let companion = self.companions.first();
        let (others, were, freed) = match companion.filter(|_| self.siblings.is_empty()) {
            Some(other) => {
                let were = if other.count == 1 { "was" } else { "were" };
                (other.what(), were, verbs(other.resource).1)
            }
            None => ("others".to_owned(), "were", freed),
        };
        match passage.what {
            PassageKind::ToFree | PassageKind::ToCallOfFree => {
                let creation = noun(self.resource);
                format!("led to its {creation}, and {freed} {others}")
            }
            PassageKind::Freed => match &self.siblings[..] {
                [Sibling { count: 1, .. }] => format!("for comparison: another was {freed} here"),
                [others] => format!(
                    "for comparison: {} others were {freed} here",
                    count(others.count)
                ),
                [] => format!("{others} {were} {freed} here"),
                _ => format!("for comparison: {others} {were} {freed} here"),
            },
            PassageKind::LedToFree => format!("on the way to the call that {freed} {others}"),
            PassageKind::FreesInside => "frees an address inside it, not its start".to_owned(),
            PassageKind::Called => "called from here".to_owned(),
            PassageKind::Later => format!("another one was later {created} from here"),
            PassageKind::UsesHolder => "the static is used here".to_owned(),
            PassageKind::InCycle => "part of the cycle was allocated here".to_owned(),
            PassageKind::DropsHolder => "what held it was dropped or cleared here".to_owned(),
        }
    }
}

/// Returns the noun for the creation of a resource of this kind.
const fn noun(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(kind) if kind.is_handle() => "creation",
        Some(Kind::Registered) => "registration",
        _ => "allocation",
    }
}

/// Returns text such as `1.50 MiB allocated at the peak, max_allocated is 1.00 MiB`.
fn exceeded(budget: &Budget, finding: &Finding) -> String {
    let bytes = exact_size(budget.reached);
    let reached = match budget.limit {
        Limit::MaxAllocationCount => format!("{} made", quantity(budget.reached, "allocation")),
        Limit::MaxReserved => format!("{bytes} reserved by {}", allocator(finding)),
        Limit::MaxTotalAllocated => format!("{bytes} allocated in total"),
        Limit::MaxAllocated => format!("{bytes} allocated at the peak"),
    };
    let allowed = match budget.limit {
        Limit::MaxAllocationCount => count(budget.allowed),
        Limit::MaxReserved | Limit::MaxTotalAllocated | Limit::MaxAllocated => {
            exact_size(budget.allowed)
        }
    };
    format!("{reached}, {} is {allowed}", budget.limit.name())
}

/// Returns the name of the allocator whose reserve a finding is about: `pool 0`,
/// `allocator:cubecl`.
fn allocator(finding: &Finding) -> String {
    match finding.pool {
        Some(pool) => pool.to_string(),
        None => escape::name(&finding.layer.to_string()),
    }
}

impl FailedFree {
    /// Returns what the call returned: `returned CUDA_ERROR_INVALID_VALUE (1)`.
    #[must_use]
    pub fn returned(&self) -> String {
        format!("returned {} ({})", escape::name(&self.error), self.code)
    }
}

impl Companion {
    /// Returns its subject: `2 streams`, `1 allocation of pinned memory`.
    #[must_use]
    pub fn what(&self) -> String {
        several(self.resource, self.count)
    }
}

impl Consequence {
    /// Returns its subject: `2 streams`, `1 allocation of linear memory, 32.0 MiB`.
    #[must_use]
    pub fn what(&self) -> String {
        with_size(several(self.resource, self.count), self.bytes)
    }
}

fn several(kind: Kind, count: u64) -> String {
    let several = quantity(count, kind.noun());
    match kind {
        Kind::Block => several,
        kind if kind.is_handle() => several,
        kind => format!("{several} of {} memory", kind.name()),
    }
}

/// Returns text such as `device memory, stream-ordered`.
fn memory(kind: Kind, layer: Layer, place: Place) -> String {
    let is_host = place == Place::HOST;
    let place = if is_host { "host" } else { "device" };
    let name = escape::name(&layer.to_string());
    match kind {
        Kind::Block => format!("{place} memory, {name}"),
        kind if layer == Layer::DRIVER => format!("{place} memory, {}", kind.name()),
        kind => format!("{place} memory, {}, {name}", kind.name()),
    }
}
