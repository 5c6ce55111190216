//! Which test left a context in which every call fails.

use std::sync::{Mutex, PoisonError};

static CULPRIT: Mutex<Option<String>> = Mutex::new(None);

/// Notes that a context failed inside `test`, in whichever of its runs; or, where it was not alone,
/// inside a check that ran beside it. The first one stays: the others only met it.
pub(crate) fn blame(test: &str, met_a_check: bool) {
    let mut culprit = CULPRIT.lock().unwrap_or_else(PoisonError::into_inner);
    culprit.get_or_insert_with(|| match met_a_check {
        true => format!("{test} or a check that ran beside it"),
        false => test.to_owned(),
    });
}

/// The test that did it.
pub(crate) fn culprit() -> Option<String> {
    CULPRIT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
