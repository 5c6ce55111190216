//! The types of the facts that both sources report about a call.

use std::fmt;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::ledger::event::Space;

/// A figure, or `None` if the source does not know it. Figures are compared only if both sources
/// know them.
pub(crate) type Figure = Option<u64>;

/// The device of a resource, or the host for host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Where {
    Device(u32),
    Host,
    /// The source does not report the place.
    Unsaid,
}

/// What a source reports about one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A resource was created or, if there is an error, could not be created.
    Made {
        kind: Kind,
        value: u64,
        bytes: Figure,
        place: Where,
        error: u32,
    },
    /// A resource was freed, destroyed or released or, if there is an error, could not be.
    Freed {
        space: Space,
        value: u64,
        error: u32,
    },
    /// The primary context of a device was retained, or released.
    Primary { device: u32, released: bool },
    /// Physical memory was mapped.
    Mapped {
        address: u64,
        bytes: u64,
        handle: u64,
    },
    /// The driver returned another handle to mapped memory.
    Handle { value: u64, address: u64 },
}

impl Fact {
    /// Whether two facts agree. A figure or place that one source does not know is not a
    /// difference.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        match (*self, *other) {
            (
                Self::Made {
                    kind,
                    value,
                    bytes,
                    place,
                    error,
                },
                Self::Made {
                    kind: other_kind,
                    value: other_value,
                    bytes: other_bytes,
                    place: other_place,
                    error: other_error,
                },
            ) => {
                let unsaid = [place, other_place].contains(&Where::Unsaid);
                (kind, value, error) == (other_kind, other_value, other_error)
                    && (bytes == other_bytes || bytes.is_none() || other_bytes.is_none())
                    && (place == other_place || unsaid)
            }
            (one, other) => one == other,
        }
    }

    /// The key by which the events of the two sources are matched.
    pub(crate) fn value(&self) -> u64 {
        match *self {
            Self::Made { value, .. } | Self::Freed { value, .. } | Self::Handle { value, .. } => {
                value
            }
            Self::Primary { device, .. } => device.into(),
            Self::Mapped { address, .. } => address,
        }
    }

    pub(crate) fn is_made(&self) -> bool {
        matches!(self, Self::Made { error: 0, .. })
    }

    pub(crate) fn is_freed(&self) -> bool {
        matches!(self, Self::Freed { error: 0, .. })
    }

    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Made { error, .. } | Self::Freed { error, .. } => *error != 0,
            _ => false,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made {
                kind,
                value,
                bytes,
                place,
                error,
            } => {
                write!(out, "made {kind:?} {value:#x}, ")?;
                match bytes {
                    Some(bytes) => write!(out, "{bytes} bytes")?,
                    None => write!(out, "of some size")?,
                }
                write!(out, ", {place:?}, error {error}")
            }
            Self::Freed {
                space,
                value,
                error,
            } => write!(out, "freed {space:?} {value:#x}, error {error}"),
            Self::Primary { device, released } => {
                let what = if *released { "released" } else { "retained" };
                write!(out, "{what} the primary context of device {device}")
            }
            Self::Mapped {
                address,
                bytes,
                handle,
            } => write!(out, "mapped {handle:#x} at {address:#x}, {bytes} bytes"),
            Self::Handle { value, address } => write!(out, "handle {value:#x} of {address:#x}"),
        }
    }
}
