//! An allocation and its release, told to a ledger without a driver.

use gpu_leak_check::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, Space, ThreadNumber,
};
use gpu_leak_check::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};

/// For which all threads work.
pub(crate) const SCOPE: ScopeId = ScopeId(1);
/// Where all threads allocate, on one device: the worst case for what they share.
pub(crate) const SITE: [usize; 24] = [0x40_1000; 24];

/// A ledger with that scope open.
pub(crate) fn ledger() -> Ledger {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    ledger
}

/// An allocation and its release by `thread`, as the driver's callbacks tell them. Its address is
/// the same each time: an allocator hands out what has just come back.
pub(crate) fn pair(ledger: &Ledger, thread: ThreadNumber, stack: StackId) {
    let key = Key {
        space: Space::DevicePointer,
        value: u64::from(thread.0) << 21,
    };
    let caller = Caller {
        thread,
        scope: SCOPE,
        stack: StackId::default(),
    };
    ledger.apply(&Event::Created(Creation {
        key,
        kind: Kind::StreamOrdered,
        layer: Layer::DRIVER,
        place: Place::cuda(0),
        bytes: 512,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: Caller { stack, ..caller },
    }));
    let ticket = ledger.apply(&Event::ReleaseBegan { key, caller });
    ledger.apply(&Event::ReleaseEnded {
        ticket: ticket.expect("a release has a ticket"),
        error: 0,
        stack: StackId::default(),
    });
}
