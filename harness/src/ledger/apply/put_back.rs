//! Releases that fail, and those of addresses the ledger did not know.

use rustc_hash::FxHashMap;

use super::Ledger;
use crate::ledger::event::{Key, Ticket};
use crate::ledger::flights::moment;
use crate::ledger::record::Record;
use crate::sync::atomic::Ordering;
use crate::sync::{MutexGuard, PoisonError};

/// A release, or several, of an address that the ledger did not know when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreedUnknown {
    /// When the last of them began: what was made later is not what it freed.
    began: u64,
    /// When the last of them ended.
    ended: u64,
}

impl Ledger {
    /// Puts a record back whose release failed: the driver still owns it, so no other thread can
    /// have got its address.
    ///
    /// One exception: two threads free the same address at once. One takes the record out and
    /// fails; the other finds nothing and succeeds. The record is then gone, whichever of the two
    /// ends first: see [`Self::freed_unknown`]. Nor does it come back where the address has been
    /// handed out anew before either of them ends.
    pub(super) fn put_back(&self, ticket: Ticket, record: Record) -> Option<Record> {
        let freed = self.lock_freed_unknown();
        if was_freed_since(&freed, ticket, &record.key(), record.sequence) {
            return None;
        }
        (self.insert_again(record) && !self.end_if_too_late(&record)).then_some(record)
    }

    /// Whether its place was free.
    pub(super) fn insert_again(&self, record: Record) -> bool {
        // Counted first, as in `created`.
        self.count_again(&record);
        self.meters.took_back(&record);
        let is_there = self.table.insert_where_free(record);
        if !is_there {
            self.forget(&record);
        }
        is_there
    }

    /// A release of an address that the ledger did not know when it began has succeeded.
    pub(super) fn freed_unknown(&self, ticket: Ticket, key: Key) {
        self.unknown_releases.fetch_add(1, Ordering::Relaxed);
        let mut freed = self.lock_freed_unknown();
        if self.take_stale(ticket, key) {
            return;
        }
        // Told apart from what is made at this address later, by whatever thread.
        let now = self
            .table
            .pass(&key, |latest| self.stripes.first().tick(latest));
        // Only those of the last moments can matter.
        if freed.len() == 64 {
            freed.clear();
        }
        let known = freed.get(&key).map_or(0, |known| known.began);
        let began = known.max(moment(ticket));
        freed.insert(key, FreedUnknown { began, ended: now });
    }

    /// The frees of what the ledger did not know. Held while a record comes back, so that none of
    /// them ends meanwhile.
    pub(super) fn lock_freed_unknown(&self) -> MutexGuard<'_, FxHashMap<Key, FreedUnknown>> {
        self.freed_unknown
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out what is older than this release: it was put back meanwhile by one that failed.
    pub(super) fn take_stale(&self, ticket: Ticket, key: Key) -> bool {
        if key.space.is_shared() {
            return self.give_back_stale(ticket, key);
        }
        let stale = |record: &Record| record.sequence < moment(ticket);
        let record = self.table.take_if(&key, stale);
        record.inspect(|record| self.forget(record)).is_some()
    }
}

/// Whether what was made at the moment `made` was freed under `key`, by a call that did not find
/// it, after the release with this ticket began.
pub(super) fn was_freed_since(
    freed: &FxHashMap<Key, FreedUnknown>,
    ticket: Ticket,
    key: &Key,
    made: u64,
) -> bool {
    let freed = freed.get(key);
    freed.is_some_and(|freed| freed.ended > moment(ticket) && made < freed.began)
}
