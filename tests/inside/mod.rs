//! Queries and checks that a test can make while it runs.

mod blocks;
mod figures;
mod reused_addresses;
mod settle_with;
mod siblings;

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;

static SOURCE: Source = Source::new("inside", &[]);

fn place() -> Place {
    Place::named("inside:0")
}

fn take(bytes: u64) -> u64 {
    static ADDRESS: AtomicU64 = AtomicU64::new(1);
    let address = ADDRESS.fetch_add(1, Ordering::Relaxed);
    SOURCE.allocated(place(), address, bytes);
    address
}

fn give_back(address: u64) {
    SOURCE.freed(address);
}
