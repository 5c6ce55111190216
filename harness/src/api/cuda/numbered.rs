//! Keys for objects that each context numbers for itself.
//!
//! A texture or surface object is a number, under which kernels find the object's descriptor in a
//! table of their context. A green context uses the table of its primary context (observed on an
//! H200). Another context may give the same number to another object, so the ledger's key of such
//! an object includes the context that owns it. The driver does not say which contexts share a
//! table. So if an object is destroyed and the current context has no object with its number, the
//! newest object of another context with this number is chosen.

use crate::ledger::event::{ContextUid, Key, Space};
use crate::ledger::{Kind, Ledger};

/// The value of such a key holds a context and a number of at most this many bits. Pointers would
/// not fit, but they do not need a context, because they are unique in a process.
const NUMBER_BITS: u32 = 32;
/// The bit that distinguishes such a value from a pointer.
const IN_CONTEXT: u64 = 1 << 63;

/// Returns the key of an object that was created while `context` was current.
pub(super) fn created(key: Key, context: ContextUid) -> Key {
    if !is_numbered(key) {
        return key;
    }
    let value = IN_CONTEXT | u64::from(context.0) << NUMBER_BITS | key.value();
    Key::new(key.space, value)
}

/// Returns the key of an object that is destroyed while `context` is current.
pub(super) fn freed(ledger: &Ledger, key: Key, context: impl FnOnce() -> ContextUid) -> Key {
    if !is_numbered(key) {
        return key;
    }
    let here = created(key, context());
    if ledger.get(&here).is_some() {
        return here;
    }
    let elsewhere = ledger.select(|record| {
        let other = record.made.key;
        let is_in_context = other.value() & IN_CONTEXT != 0;
        other.space == key.space && is_in_context && other.value() as u32 == key.value() as u32
    });
    let newest = elsewhere.iter().max_by_key(|record| record.sequence);
    newest.map_or(key, |record| record.made.key)
}

/// Whether an object is identified by a number that is unique only within its context.
fn is_numbered(key: Key) -> bool {
    matches!(key.space, Space::Handle(Kind::Texture | Kind::Surface))
        && key.value() >> NUMBER_BITS == 0
}
