//! Runs random programs against a model of the state that the driver itself would have. In the
//! model, each object exists once, and is gone as soon as its release takes effect, no matter which
//! calls still have to return.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::assert_figures;
use super::program::{CONTEXTS, Fate, KINDS, Step, Who, step};
use crate::ledger::contexts::dies_with_context;
use crate::ledger::event::{
    Caller, ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, StackId, ThreadNumber,
    Ticket,
};
use crate::ledger::{Kind, Layer, Ledger, Place};

const FAILED: u32 = 1;
const DEINITIALIZED: u32 = 4;

/// An object that the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Object {
    made: Creation,
    /// The object's position in the order of creation. An address that is issued again belongs to
    /// another object.
    number: u64,
    references: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    ticket: Ticket,
    key: Key,
    fate: Fate,
    /// The object that was under the key when the release began.
    found: Option<Object>,
    count: u64,
    caller: Caller,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Returned {
    since: u64,
    count: u64,
    bytes: u64,
}

struct Model {
    ledger: Ledger,
    objects: BTreeMap<Key, Object>,
    flights: Vec<Flight>,
    numbers: u64,
    ended: Vec<u32>,
    open: BTreeMap<u32, Returned>,
    used: Vec<u32>,
    unowned: u64,
    unknown: u64,
    /// Whether two calls used one object at the same time. If so, the figures may have been higher
    /// for a moment than those of the model.
    met: bool,
    live: BTreeMap<Place, u64>,
    peaks: BTreeMap<Place, u64>,
}

fn place_of(kind: Kind, context: u32) -> Place {
    match kind {
        Kind::Pinned => Place::HOST,
        _ => Place::cuda(context as usize % 2),
    }
}

impl Model {
    fn new() -> Self {
        let ledger = Ledger::new();
        for context in 0..CONTEXTS {
            ledger.apply(&Event::ContextCreated {
                context: ContextUid(context + 1),
                handle: u64::from(context) + 0x100,
                place: Place::cuda(context as usize % 2),
            });
        }
        Self {
            ledger,
            objects: BTreeMap::new(),
            flights: Vec::new(),
            numbers: 0,
            ended: Vec::new(),
            open: BTreeMap::new(),
            used: Vec::new(),
            unowned: 0,
            unknown: 0,
            met: false,
            live: BTreeMap::new(),
            peaks: BTreeMap::new(),
        }
    }

    /// Returns the caller of a step. No thread works for a scope that has not been opened yet.
    fn caller(&self, who: Who) -> Caller {
        let scope = who.scope;
        Caller {
            thread: ThreadNumber(who.thread),
            scope: ScopeId(if self.used.contains(&scope) { scope } else { 0 }),
            stack: StackId::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn gain(&mut self, made: &Creation) {
        if !made.kind.is_handle() {
            let live = self.live.entry(made.place).or_default();
            *live = live.wrapping_add(made.bytes);
            let peak = self.peaks.entry(made.place).or_default();
            *peak = (*peak).max(*live);
        }
    }

    fn lose(&mut self, made: &Creation) {
        if !made.kind.is_handle() {
            let live = self.live.entry(made.place).or_default();
            *live = live.wrapping_sub(made.bytes);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create(at, kind, bytes, context, who) => {
                let caller = self.caller(who);
                self.create(at, kind, bytes, context, caller);
            }
            Step::CreationFails(kind, bytes, who) => {
                self.ledger.apply(&Event::CreationFailed {
                    kind: KINDS[kind].0,
                    bytes,
                    error: 2,
                    caller: self.caller(who),
                });
            }
            Step::Retain(at, count) => {
                let key = key(KINDS[5].1, at);
                // Retaining an object while a release of its last reference is in flight would be a
                // mistake of the program.
                let is_held = !self.flights.iter().any(|flight| flight.key == key);
                if let Some(object) = self.objects.get_mut(&key).filter(|_| is_held) {
                    object.references += count;
                    self.ledger.apply(&Event::Retained { key, count });
                }
            }
            Step::Begin(at, kind, fate, count, who) => {
                let caller = self.caller(who);
                self.begin(key(KINDS[kind].1, at), fate, count, caller);
            }
            Step::End(which) if !self.flights.is_empty() => {
                let which = which % self.flights.len();
                self.end(which);
            }
            Step::End(_) => {}
            Step::EndContext(context) => self.end_context(context),
            Step::Open(scope) => self.open(scope),
            Step::Close(scope) => self.close(scope),
            Step::RestartPeaks => {
                self.ledger.watch(true);
                self.peaks.clone_from(&self.live);
            }
        }
    }

    fn create(&mut self, at: u64, kind: usize, bytes: u64, context: u32, caller: Caller) {
        let (kind, space) = KINDS[kind];
        let key = key(space, at);
        if self.objects.contains_key(&key) {
            // The driver hands out only free addresses.
            return;
        }
        self.met |= self.flights.iter().any(|flight| flight.key == key);
        let made = Creation {
            key,
            kind,
            layer: Layer::DRIVER,
            place: place_of(kind, context),
            bytes: if kind.is_handle() { 0 } else { bytes },
            context: ContextUid(context + 1),
            stream: 0,
            pool: 0,
            caller,
        };
        let number = self.number();
        self.ledger.apply(&Event::Created(made));
        if !self.open.contains_key(&caller.scope.0) {
            self.unowned += 1;
        }
        self.gain(&made);
        if self.ended.contains(&context) && dies_with_context(&made) {
            self.lose(&made);
            return;
        }
        let object = Object {
            made,
            number,
            references: 1,
        };
        self.objects.insert(key, object);
    }

    fn begin(&mut self, key: Key, fate: Fate, count: u64, caller: Caller) {
        let is_shared = key.space.is_shared();
        // Only releases of resources that are not shared are captured as nodes.
        let fate = if is_shared && fate == Fate::IsCaptured {
            Fate::Fails
        } else {
            fate
        };
        let count = if is_shared { count } else { 1 };
        let object = self.objects.get(&key).copied();
        let has_references = object.is_some_and(|object| object.references >= count);
        let succeeds = matches!(fate, Fate::Succeeds | Fate::ShutsDown);
        if is_shared && succeeds && object.is_some() && !has_references {
            // The driver refuses to release more references than there are.
            return;
        }
        let meets = self.flights.iter().any(|flight| flight.key == key);
        if is_shared && meets {
            // A release that fails while another succeeds is a mistake of the program, and only the
            // driver could say which of the references are left.
            return;
        }
        self.met |= meets;
        let began = if is_shared {
            Event::ReleaseBegan {
                key,
                count,
                graph: None,
                caller,
            }
        } else {
            Event::FreeBegan { key, caller }
        };
        let ticket = self.ledger.apply(&began).expect("a release has a ticket");
        if let Some(object) = object.filter(|_| !meets)
            && (!is_shared || object.references <= count)
        {
            self.lose(&object.made);
        }
        if succeeds && let Some(object) = self.objects.get_mut(&key) {
            object.references -= count;
            if object.references == 0 {
                self.objects.remove(&key);
            }
        }
        self.flights.push(Flight {
            ticket,
            key,
            fate,
            found: object,
            count,
            caller,
        });
    }

    fn end(&mut self, which: usize) {
        let flight = self.flights.remove(which);
        let Flight { ticket, fate, .. } = flight;
        self.ledger.apply(&match fate {
            Fate::IsCaptured => Event::FreeCaptured { ticket },
            Fate::Succeeds | Fate::ShutsDown | Fate::Fails => Event::FreeEnded {
                ticket,
                error: match fate {
                    Fate::Fails => FAILED,
                    Fate::ShutsDown => DEINITIALIZED,
                    _ => 0,
                },
                stack: StackId::default(),
            },
        });
        if matches!(fate, Fate::Succeeds | Fate::ShutsDown) {
            match flight.found {
                None => self.unknown += 1,
                Some(object) => self.give_credit(&flight, &object),
            }
        } else if let Some(object) = self.objects.get(&flight.key).copied() {
            // The object is live again, if it was gone.
            let is_back = !flight.key.space.is_shared() || object.references <= flight.count;
            let is_same = flight
                .found
                .is_some_and(|found| found.number == object.number);
            if is_back && is_same {
                self.gain(&object.made);
            }
        }
    }

    fn give_credit(&mut self, flight: &Flight, object: &Object) {
        let scope = flight.caller.scope;
        let is_last = !flight.key.space.is_shared() || object.references == flight.count;
        if is_last
            && scope != object.made.caller.scope
            && let Some(returned) = self.open.get_mut(&scope.0)
            && object.number < returned.since
        {
            returned.count += 1;
            returned.bytes = returned.bytes.saturating_add(object.made.bytes);
        }
    }

    fn end_context(&mut self, context: u32) {
        if self.ended.contains(&context) {
            return;
        }
        self.ended.push(context);
        self.met |= !self.flights.is_empty();
        self.ledger.apply(&Event::ContextDestroyed {
            context: ContextUid(context + 1),
            cause: ContextEnd::Destroyed,
            caller: Caller::default(),
        });
        let uid = ContextUid(context + 1);
        let dies = |object: &Object| object.made.context == uid && dies_with_context(&object.made);
        let gone: Vec<_> = self
            .objects
            .values()
            .filter(|object| dies(object))
            .copied()
            .collect();
        for object in gone {
            self.objects.remove(&object.made.key);
            self.lose(&object.made);
        }
    }

    fn open(&mut self, number: u32) {
        if self.used.contains(&number) {
            return;
        }
        self.ledger.open_scope(ScopeId(number));
        self.used.push(number);
        let since = self.number();
        let returned = Returned {
            since,
            ..Returned::default()
        };
        self.open.insert(number, returned);
    }

    fn close(&mut self, number: u32) {
        let Some(expected) = self.open.remove(&number) else {
            return;
        };
        let returned = self.ledger.close_scope(ScopeId(number));
        if !self.met {
            assert_eq!(
                (returned.count, returned.bytes),
                (expected.count, expected.bytes)
            );
        }
    }

    /// Ends all releases in flight and compares everything.
    fn check(&mut self) {
        while !self.flights.is_empty() {
            self.end(0);
        }
        let what = |made: &Creation| {
            (
                made.key,
                made.kind,
                made.bytes,
                made.place,
                made.caller.scope,
            )
        };
        let mut live: Vec<_> = self
            .ledger
            .select(|_| true)
            .iter()
            .map(|it| what(&it.made))
            .collect();
        live.sort_unstable();
        let expected: Vec<_> = self
            .objects
            .values()
            .map(|object| what(&object.made))
            .collect();
        assert_eq!(live, expected, "what is live");
        assert_figures(&self.ledger);
        for scope in self.open.keys() {
            let of_scope = |object: &&Object| object.made.caller.scope.0 == *scope;
            let counted = self.objects.values().filter(of_scope).count();
            assert_eq!(
                self.ledger.snapshot(ScopeId(*scope)).live as usize,
                counted,
                "scope {scope}"
            );
        }
        assert_eq!(
            self.ledger.snapshot(ScopeId::NONE).unowned,
            self.unowned,
            "without an owner"
        );
        if !self.met {
            assert_eq!(
                self.ledger.unknown_frees(),
                self.unknown,
                "unknown releases"
            );
            for (place, peak) in &self.peaks {
                let counted = self.ledger.bytes(Layer::DRIVER, *place);
                assert_eq!(
                    (counted.live, counted.peak),
                    (self.live[place], *peak),
                    "{place}"
                );
            }
        }
        assert!(!self.ledger.frees_in_flight());
    }
}

fn key(space: Space, at: u64) -> Key {
    Key::new(space, 0x1000 * (at + 1))
}

proptest! {
    #![proptest_config(ProptestConfig {
        // `PROPTEST_CASES` can request more cases.
        cases: ProptestConfig::default().cases.max(1000),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ledger_is_what_the_driver_knows(
        programs in vec((vec(step(), 1..60), any::<bool>()), 1..3)
    ) {
        let mut model = Model::new();
        for (program, checks) in programs {
            for step in program {
                model.step(step);
            }
            if checks {
                model.check();
            }
        }
        model.check();
    }
}
