//! A library like those of users. It does not depend on the harness, and reports to it through
//! `gpu-leak-hooks`. Its memory consists only of addresses and needs no GPU.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_hooks::{Place, Source, allow, hand_over};

static SOURCE: Source = Source::new("hooked", &["hooked/src/"]);

/// Memory of the library's device.
#[derive(Debug)]
pub struct Buffer {
    address: u64,
}

impl Buffer {
    /// Allocates `bytes`.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let address = NEXT.fetch_add(1, Ordering::Relaxed) << 32;
        SOURCE.allocated(Place::named("hooked:0"), address, bytes);
        Self { address }
    }

    /// Hands the memory to the caller, who frees it with [`Self::from_raw`].
    #[must_use]
    pub fn into_raw(self) -> u64 {
        let address = self.address;
        mem::forget(self);
        hand_over(address);
        address
    }

    /// Takes ownership of the memory again.
    #[must_use]
    pub fn from_raw(address: u64) -> Self {
        Self { address }
    }

    /// Keeps the memory for the life of the process.
    pub fn leak(self) {
        mem::forget(self);
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        SOURCE.freed(self.address);
    }
}

/// Allocates memory that nothing frees, and returns its address.
#[must_use]
pub fn forgotten(bytes: u64) -> u64 {
    let buffer = Buffer::new(bytes);
    let address = buffer.address;
    buffer.leak();
    address
}

/// Creates a table that all models share, and keeps it.
pub fn lookup_table(bytes: u64) {
    allow("the lookup table is shared by all models", || {
        Buffer::new(bytes).leak();
    });
}

/// An arena that hands out memory and never takes any back.
#[derive(Debug)]
pub struct Arena {
    first: u64,
    next: AtomicU64,
}

impl Arena {
    /// The arena of this process.
    pub fn shared() -> &'static Self {
        static ARENA: Arena = Arena {
            first: 0x7000_0000_0000,
            next: AtomicU64::new(0x7000_0000_0000),
        };
        &ARENA
    }

    /// Allocates `bytes`, and returns the address.
    pub fn take(&self, bytes: u64) -> u64 {
        let address = self.next.fetch_add(bytes, Ordering::Relaxed);
        SOURCE.allocated(Place::named("hooked:0"), address, bytes);
        address
    }

    /// Whether memory at this address is in the arena.
    pub fn has(&self, address: u64) -> bool {
        (self.first..self.next.load(Ordering::Relaxed)).contains(&address)
    }
}
