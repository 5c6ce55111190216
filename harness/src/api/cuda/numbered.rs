//! Names for objects that each context numbers by itself.
//!
//! A texture or surface object is the number under which kernels find its descriptor, in tables of
//! their context: another context may give the same number to another object. In the ledger such
//! an object goes by its context as well. The driver does not promise where the tables end (a green
//! context may share those of its primary one), so a release that finds nothing under the current
//! context takes the object of that number that there is.

use crate::ledger::event::{ContextUid, Key, Space};
use crate::ledger::{Kind, Ledger};

/// A number and its context share the value of a key. Pointers do not fit, and need not: they are
/// unique in a process.
const NUMBER_BITS: u32 = 32;
/// Tells such a value from a pointer.
const IN_CONTEXT: u64 = 1 << 63;

/// The name of what a call made while a context was current.
pub(super) fn created(key: Key, context: ContextUid) -> Key {
    if !is_numbered(key) {
        return key;
    }
    Key {
        value: IN_CONTEXT | u64::from(context.0) << NUMBER_BITS | key.value,
        ..key
    }
}

/// The name of what a call destroys while a context is current, where that [is a number](is_numbered).
pub(super) fn released(ledger: &Ledger, key: Key, context: ContextUid) -> Key {
    let here = created(key, context);
    if ledger.get(&here).is_some() {
        return here;
    }
    let elsewhere = ledger.select(|record| {
        let other = record.made.key;
        let is_in_context = other.value & IN_CONTEXT != 0;
        other.space == key.space && is_in_context && other.value as u32 == key.value as u32
    });
    let newest = elsewhere.iter().max_by_key(|record| record.sequence);
    newest.map_or(key, |record| record.made.key)
}

/// Whether an object has a number of its context's for a name.
pub(super) fn is_numbered(key: Key) -> bool {
    matches!(key.space, Space::Handle(Kind::Texture | Kind::Surface))
        && key.value >> NUMBER_BITS == 0
}
