//! Which checks may run now, and what else may be active at the same time.

pub(crate) mod child;
pub(crate) mod concurrency;
pub(crate) mod gate;
pub(crate) mod libtest;

use std::sync::LazyLock;

use self::gate::{Gate, Manner, Turn};
use super::scopes::open::{current, is_inside_a_check};
use super::scopes::tree;
use crate::config::TestFacts;

static GATE: LazyLock<Gate> = LazyLock::new(Gate::default);

/// Who runs a check.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    /// A runner. No other check can be waiting for it.
    Runner,
    /// The program. An outer check may be waiting for it.
    Program,
}

/// Waits for the turn of a check. A nested check runs within the turn of the check around it.
pub(super) fn take(test: &TestFacts, caller: Caller) -> Turn<'static> {
    if is_inside_a_check() {
        return none();
    }
    let manner = if test.parallel {
        Manner::Parallel
    } else {
        Manner::Exclusive
    };
    match caller {
        Caller::Runner => {
            concurrency::arrive();
            GATE.enter(manner)
        }
        Caller::Program => GATE.enter_now(manner),
    }
}

/// Returns the turn of a check that does not wait: it is nested, or checks a scope or a process.
pub(super) fn none() -> Turn<'static> {
    let around = current().and_then(tree::check_around);
    GATE.stay_outside(around.is_some())
}
