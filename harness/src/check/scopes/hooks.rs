//! What the code under test says of itself: through `gpu-leak-hooks`, from anywhere.

use gpu_leak_hooks::Hooks;
use gpu_leak_interpose as threads;

use super::open::current;
use super::tree;
use crate::device::exit;
use crate::ledger;
use crate::ledger::event::Event;
use crate::observe;

/// From now on the hooks of this process reach the harness.
pub(crate) fn install() {
    static HOOKS: Hooks = Hooks {
        begin_allow,
        end_allow,
        hand_over,
        allocated: |source, place, address, bytes| {
            observe::allocated(source, || observe::place(place), address, bytes);
        },
        freed: |source, place, address| {
            observe::freed(source, || place.map(observe::place), address);
        },
    };
    gpu_leak_hooks::install(&HOOKS);
}

/// No token of an open scope.
const NOTHING_BEGUN: u64 = 0;

/// Has this thread work for the part of its scope in which things may stay for `reason`. Outside
/// every check all that is made is baseline, and nothing begins.
fn begin_allow(reason: &'static str) -> u64 {
    // In a forked child the ledger's locks may be held by threads that no longer exist.
    if exit::forked() {
        return NOTHING_BEGUN;
    }
    let part = current().and_then(|outer| tree::part(outer, reason));
    part.map_or(NOTHING_BEGUN, |part| threads::set_token(u64::from(part.0)))
}

fn end_allow(outer: u64) {
    if outer != NOTHING_BEGUN {
        threads::set_token(outer);
    }
}

fn hand_over(address: u64) {
    if let Some(_quiet) = observe::heard() {
        ledger::live().apply(&Event::HandedOver { address });
    }
}
