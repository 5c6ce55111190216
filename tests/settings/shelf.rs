//! An allocator that needs no GPU, because it only invents addresses and reports them.

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;

static SHELF: Source = Source::new("shelf", &["settings/shelf.rs"]);

/// Allocates `bytes`, which [`give_back`] frees.
pub(super) fn take(bytes: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let address = NEXT.fetch_add(1, Ordering::Relaxed);
    SHELF.allocated(Place::named("shelf:0"), address, bytes);
    address
}

pub(super) fn give_back(address: u64) {
    SHELF.freed(address);
}

/// Allocates and immediately frees `bytes`.
pub(super) fn borrow(bytes: u64) {
    give_back(take(bytes));
}
