//! An allocation and its free, reported to a ledger without a driver.

use gpu_leak_check::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, Space, ThreadNumber,
};
use gpu_leak_check::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};

/// The scope that all threads work for.
pub(crate) const SCOPE: ScopeId = ScopeId(1);
/// The stack with which every allocation is reported.
pub(crate) const SITE: [usize; 24] = [0x40_1000; 24];

/// Returns a ledger in which [`SCOPE`] is open.
pub(crate) fn ledger() -> Ledger {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    ledger
}

/// Reports an allocation and its free by `thread`, as the driver's callbacks do. The address is
/// always the same, because an allocator reuses what has just been freed.
pub(crate) fn pair(ledger: &Ledger, thread: ThreadNumber, stack: StackId) {
    let key = Key::new(Space::DevicePointer, u64::from(thread.0) << 21);
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
    let ticket = ledger.apply(&Event::FreeBegan { key, caller });
    ledger.apply(&Event::FreeEnded {
        ticket: ticket.expect("a release has a ticket"),
        error: 0,
        stack: StackId::default(),
    });
}
