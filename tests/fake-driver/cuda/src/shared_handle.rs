//! Data that one process passes to another: 64 opaque bytes that identify the process and the
//! shared resource.

use crate::error::Error;

/// `CUipcMemHandle`, `CUipcEventHandle`, `CUmemPoolPtrExportData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opaque([u8; 64]);

/// The kind of the shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SharedKind {
    Memory = u64::from_le_bytes(*b"fake mem"),
    Event = u64::from_le_bytes(*b"fake evt"),
    Pooled = u64::from_le_bytes(*b"fake ptr"),
    Pool = u64::from_le_bytes(*b"fake set"),
}

/// The contents of the 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    kind: u64,
    process: u64,
    /// The address or the handle of the resource in the process that shares it.
    pub(crate) source: u64,
    pub(crate) size: u64,
}

impl Shared {
    /// A shared resource that belongs to this process.
    pub(crate) fn own(kind: SharedKind, source: u64, size: u64) -> Self {
        Self {
            kind: kind as u64,
            process: u64::from(std::process::id()),
            source,
            size,
        }
    }

    pub(crate) fn is_own(self) -> bool {
        self.process == u64::from(std::process::id())
    }

    pub(crate) fn encode(self) -> Opaque {
        let mut bytes = [0; 64];
        let words = [self.kind, self.process, self.source, self.size];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Opaque(bytes)
    }

    pub(crate) fn decode(bytes: Opaque, kind: SharedKind) -> Result<Self, Error> {
        let word = |index: usize| {
            let bytes = bytes.0[index * 8..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        let shared = Self {
            kind: word(0),
            process: word(1),
            source: word(2),
            size: word(3),
        };
        if shared.kind == kind as u64 {
            Ok(shared)
        } else {
            Err(Error::INVALID_VALUE)
        }
    }
}

impl Opaque {
    pub(crate) fn bytes(&self) -> &[u8; 64] {
        &self.0
    }

    pub(crate) fn of_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }
}
