//! Connects the harness to `gpu-leak-hooks`, through which the code under test talks to the
//! harness.

use gpu_leak_hooks::Hooks;
use gpu_leak_interpose as threads;

use super::open::{current, process};
use super::tree;
use crate::ledger::ScopeId;
use crate::ledger::event::Event;
use crate::{exit, ledger, observe};

/// Installs the hooks of this process.
pub(crate) fn install() {
    static HOOKS: Hooks = Hooks {
        begin_allow,
        end_allow,
        hand_over,
        allocated: |source, place, address, bytes| {
            observe::allocated(source, || observe::place(source, place), address, bytes);
        },
        freed: |source, place, address| {
            let place = || place.map(|place| observe::place(source, place));
            observe::freed(source, place, address);
        },
    };
    gpu_leak_hooks::install(&HOOKS);
}

/// A number that is no thread's token.
const NOTHING_BEGUN: u64 = u64::MAX;

/// Begins the part of this thread's scope in which resources may stay for `reason`. Outside any
/// scope, in a process that is not judged as a whole, what is created belongs to nobody: it is the
/// baseline of later checks, and a check that runs alone would otherwise be responsible for it.
fn begin_allow(reason: &'static str) -> u64 {
    // In a forked child, threads that do not exist there may hold the ledger's locks.
    if exit::forked() {
        return NOTHING_BEGUN;
    }
    let part = match current().or_else(process) {
        Some(outer) => tree::part(outer, reason),
        None => Some(ScopeId::NOBODY),
    };
    part.map_or(NOTHING_BEGUN, |part| threads::set_token(u64::from(part.0)))
}

fn end_allow(outer: u64) {
    if outer != NOTHING_BEGUN {
        threads::set_token(outer);
    }
}

fn hand_over(address: u64) {
    if let Some(_quiet) = observe::begin_report() {
        ledger::live().apply(&Event::HandedOver { address });
    }
}
