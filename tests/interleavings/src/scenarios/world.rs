//! A driver, and a ledger that receives reports of the driver's calls, as from callbacks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use shuttle::thread;

use crate::ledger::event::{
    Caller, ContextEnd, ContextUid, Creation, CuResult, Key, Space, ThreadNumber,
};
use crate::ledger::{Event, Kind, Layer, Ledger, Place, Record, ScopeId, StackId};

/// The driver's result for a free that it refuses.
pub(super) const REFUSED: CuResult = 1;

/// The context of all allocations in scenarios that end no context.
pub(super) const CONTEXT: ContextUid = ContextUid(1);

/// The driver's own state. Its types are those of `std`, which the checker does not interleave,
/// because a driver call is one step.
#[derive(Default)]
struct Driver {
    /// The live allocations, by address.
    live: BTreeMap<u64, Allocation>,
    made: u64,
    ended: Vec<ContextUid>,
}

/// What distinguishes two allocations at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allocation {
    bytes: u64,
    context: ContextUid,
    scope: ScopeId,
}

impl Driver {
    /// Takes the lowest free address, so that a freed address is reused immediately.
    fn allocate(&mut self, scope: ScopeId, context: ContextUid) -> Option<(u64, u64)> {
        if self.ended.contains(&context) {
            return None;
        }
        let address = (1..).find(|address| !self.live.contains_key(address))?;
        self.made += 1;
        let bytes = 1 << self.made;
        let allocation = Allocation {
            bytes,
            context,
            scope,
        };
        self.live.insert(address, allocation);
        Some((address, bytes))
    }

    fn free(&mut self, address: u64) -> CuResult {
        match self.live.remove(&address) {
            Some(_) => 0,
            None => REFUSED,
        }
    }
}

/// A driver and its ledger.
pub(super) struct World {
    pub(super) ledger: Ledger,
    driver: Mutex<Driver>,
}

/// A thread of the program that works for a scope.
pub(super) fn caller(thread: u32, scope: ScopeId) -> Caller {
    Caller {
        thread: ThreadNumber(thread),
        scope,
        stack: StackId::default(),
    }
}

pub(super) fn key(address: u64) -> Key {
    Key::new(Space::DevicePointer, address)
}

impl World {
    pub(super) fn new(scopes: &[ScopeId]) -> Self {
        let ledger = Ledger::new();
        for scope in scopes {
            ledger.open_scope(*scope);
        }
        let driver = Mutex::default();
        Self { ledger, driver }
    }

    fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().unwrap()
    }

    /// Allocates, unless the context has ended.
    pub(super) fn allocate_in(&self, context: ContextUid, caller: Caller) -> Option<u64> {
        let (address, bytes) = self.driver().allocate(caller.scope, context)?;
        thread::yield_now();
        self.ledger.apply(&Event::Created(Creation {
            key: key(address),
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes,
            context,
            stream: 0,
            pool: 0,
            caller,
        }));
        Some(address)
    }

    pub(super) fn allocate(&self, caller: Caller) -> u64 {
        self.allocate_in(CONTEXT, caller).expect("it never ends")
    }

    /// Frees, and returns the driver's own result.
    pub(super) fn free(&self, address: u64, caller: Caller) -> CuResult {
        self.release(address, caller, |driver| driver.free(address))
    }

    /// Calls a free that the driver refuses for an unrelated reason.
    pub(super) fn fail_to_free(&self, address: u64, caller: Caller) {
        self.release(address, caller, |_| REFUSED);
    }

    /// Calls a free that is recorded into a graph instead.
    pub(super) fn record_free(&self, address: u64, caller: Caller) {
        let began = Event::FreeBegan {
            key: key(address),
            caller,
        };
        let ticket = self.ledger.apply(&began).expect("a release has a ticket");
        thread::yield_now();
        self.ledger.apply(&Event::FreeCaptured { ticket });
    }

    fn release(
        &self,
        address: u64,
        caller: Caller,
        call: impl FnOnce(&mut Driver) -> CuResult,
    ) -> CuResult {
        let began = Event::FreeBegan {
            key: key(address),
            caller,
        };
        let ticket = self.ledger.apply(&began).expect("a release has a ticket");
        thread::yield_now();
        let error = call(&mut self.driver());
        thread::yield_now();
        self.ledger.apply(&Event::FreeEnded {
            ticket,
            error,
            stack: StackId::default(),
        });
        error
    }

    /// Ends a context, with everything in it.
    pub(super) fn end_context(&self, context: ContextUid, caller: Caller) {
        {
            let mut driver = self.driver();
            driver.ended.push(context);
            driver.live.retain(|_, live| live.context != context);
        }
        thread::yield_now();
        self.ledger.apply(&Event::ContextDestroyed {
            context,
            cause: ContextEnd::Destroyed,
            caller,
        });
    }

    /// Returns the live records that `scope` created.
    pub(super) fn records_of(&self, scope: ScopeId) -> Vec<Record> {
        let of_scope = |record: &Record| record.made.caller.scope == scope;
        self.ledger.select(of_scope)
    }

    /// Fails unless the ledger contains what is live in the driver and all figures agree. Called
    /// after all other calls.
    pub(super) fn agrees(&self, open: &[ScopeId]) {
        let live = self.driver().live.clone();
        let records = self.ledger.select(|_| true);
        let reported: BTreeMap<_, _> = records
            .iter()
            .map(|record| {
                let made = record.made;
                let allocation = Allocation {
                    bytes: made.bytes,
                    context: made.context,
                    scope: made.caller.scope,
                };
                (made.key.value(), allocation)
            })
            .collect();
        assert_eq!(reported, live, "records lost or invented");
        let bytes: u64 = live.values().map(|live| live.bytes).sum();
        assert_eq!(self.ledger.bytes(Layer::DRIVER, Place::cuda(0)).live, bytes);
        assert_eq!(self.ledger.live(Kind::Linear), live.len() as u64);
        for scope in open {
            let of_scope = live.values().filter(|live| live.scope == *scope).count();
            assert_eq!(
                self.ledger.snapshot(*scope).live as usize,
                of_scope,
                "{scope:?}"
            );
        }
        assert!(!self.ledger.frees_in_flight());
    }
}
