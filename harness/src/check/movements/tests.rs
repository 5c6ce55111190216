use super::{MovementsReader, StepKind};
use crate::ledger::event::{Caller, ContextUid, Creation, Event, Key, Space, StackId, Ticket};
use crate::ledger::{Kind, Layer, Ledger, Place};

const FAILS: u32 = 1;

/// A ledger whose events a reader reads. The time is the number of the event.
struct World<'a> {
    ledger: &'a Ledger,
    reader: MovementsReader<'a>,
    now: u64,
}

impl<'a> World<'a> {
    fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            reader: MovementsReader::new(ledger),
            now: 0,
        }
    }

    fn apply(&mut self, event: &Event) -> Option<Ticket> {
        self.now += 1;
        let answer = self.ledger.apply(event);
        self.reader.event(event, answer, self.now);
        answer
    }

    fn allocates(&mut self, layer: Layer, address: u64, bytes: u64) {
        self.apply(&Event::Created(Creation {
            key: key(layer, address),
            kind: Kind::Linear,
            layer,
            place: Place::cuda(0),
            bytes,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller::default(),
        }));
    }

    fn begins_to_free(&mut self, address: u64) -> Ticket {
        let key = key(Layer::DRIVER, address);
        let caller = Caller::default();
        let answer = self.apply(&Event::FreeBegan { key, caller });
        answer.expect("a ticket")
    }

    fn frees(&mut self, ticket: Ticket, error: u32) {
        let stack = StackId::default();
        self.apply(&Event::FreeEnded {
            ticket,
            error,
            stack,
        });
    }
}

fn key(layer: Layer, address: u64) -> Key {
    match layer {
        Layer::DRIVER => Key::new(Space::DevicePointer, address),
        of => Key::new(Space::Observed(of), address),
    }
}

/// Two threads free at the same time.
#[test]
fn each_free_ends_when_its_own_call_returns() {
    let ledger = Ledger::new();
    let mut world = World::new(&ledger);
    for address in [100, 200, 300] {
        world.allocates(Layer::DRIVER, address, 64);
    }
    let calls = [100, 200, 300].map(|address| world.begins_to_free(address));
    world.frees(calls[1], 0);
    world.frees(calls[2], FAILS);
    world.frees(calls[0], 0);
    let movements = world.reader.finish();
    let frees = movements.steps.iter();
    let frees = frees.filter(|it| it.kind != StepKind::Allocate);
    let frees: Vec<_> = frees.map(|it| (it.allocation, it.kind, it.at_us)).collect();
    assert_eq!(
        frees,
        [
            (1, StepKind::BeginFree, 5),
            (1, StepKind::Free, 7),
            (0, StepKind::BeginFree, 4),
            (0, StepKind::Free, 9),
        ]
    );
    let live: Vec<_> = movements.allocations.iter().map(|it| it.is_live).collect();
    assert_eq!(live, [false, false, true]);
}

/// The driver may hand out an address again before the call that frees it has returned.
#[test]
fn an_address_that_is_used_again_during_its_free_has_two_allocations() {
    let ledger = Ledger::new();
    let mut world = World::new(&ledger);
    world.allocates(Layer::DRIVER, 100, 64);
    let call = world.begins_to_free(100);
    world.allocates(Layer::DRIVER, 100, 32);
    world.frees(call, 0);
    let movements = world.reader.finish();
    let steps = movements.steps.iter();
    let steps: Vec<_> = steps.map(|it| (it.allocation, it.kind, it.at_us)).collect();
    assert_eq!(
        steps,
        [
            (0, StepKind::Allocate, 1),
            (0, StepKind::BeginFree, 2),
            (0, StepKind::Free, 3),
            (1, StepKind::Allocate, 3),
        ]
    );
    assert!(movements.allocations[1].is_live);
}

#[test]
fn a_block_is_inside_the_outermost_allocation_that_contains_it() {
    let ledger = Ledger::new();
    let mut world = World::new(&ledger);
    let [outer, inner] = ["movements-outer", "movements-inner"].map(Layer::allocator);
    world.allocates(Layer::DRIVER, 1000, 1000);
    world.allocates(Layer::DRIVER, 5000, 10);
    world.allocates(outer, 1000, 500);
    world.allocates(outer, 1500, 500);
    world.allocates(inner, 1600, 50);
    world.allocates(inner, 4000, 50);
    let movements = world.reader.finish();
    let inside: Vec<_> = movements.allocations.iter().map(|it| it.inside).collect();
    assert_eq!(inside, [None, None, Some(0), Some(0), Some(0), None]);
}
