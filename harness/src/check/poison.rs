//! Which test left a context in which every call fails.

use std::sync::{Mutex, PoisonError};

static CULPRIT: Mutex<Option<String>> = Mutex::new(None);

/// Notes that a context failed inside `test`. The first one stays: the others only met it.
pub(crate) fn blame(test: &str) {
    let mut culprit = CULPRIT.lock().unwrap_or_else(PoisonError::into_inner);
    culprit.get_or_insert_with(|| test.to_owned());
}

/// The test that did it.
pub(crate) fn culprit() -> Option<String> {
    CULPRIT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}
