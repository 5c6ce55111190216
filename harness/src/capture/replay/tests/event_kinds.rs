//! Tests events of every kind.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{assert_same, caller, created, header, key, recorded_ledger, replayed};
use crate::ledger::event::{
    Caller, ContextEnd, ContextUid, Creation, Event, Key, Space, StackId, Ticket,
};
use crate::ledger::{Kind, Layer, Ledger, Place};

const STAYS: ContextUid = ContextUid(2);
const FAILED: u32 = 1;

/// Reports one event of each kind to a ledger, on behalf of one caller.
struct Reporter<'ledger> {
    ledger: &'ledger Ledger,
    caller: Caller,
}

impl Reporter<'_> {
    fn event(&self, event: Event) {
        self.ledger.apply(&event);
    }

    fn begin(&self, event: Event) -> Ticket {
        self.ledger.apply(&event).expect("the event has a ticket")
    }

    fn end(&self, ticket: Ticket, error: u32) {
        let stack = if error == 0 {
            StackId::default()
        } else {
            self.caller.stack
        };
        self.event(Event::FreeEnded {
            ticket,
            error,
            stack,
        });
    }

    fn creation(&self, kind: Kind, space: Space, value: u64, bytes: u64) -> Creation {
        Creation {
            key: Key::new(space, value),
            kind,
            layer: Layer::DRIVER,
            place: Place::UNKNOWN,
            bytes,
            context: STAYS,
            stream: 0,
            pool: 0,
            caller: self.caller,
        }
    }

    fn make(&self, kind: Kind, space: Space, value: u64, bytes: u64) -> Key {
        let made = self.creation(kind, space, value, bytes);
        self.event(Event::Created(made));
        made.key
    }

    fn make_handle(&self, kind: Kind, value: u64) -> Key {
        self.make(kind, Space::Handle(kind), value, 0)
    }

    fn primary(&self) {
        let (place, caller) = (Place::cuda(0), self.caller);
        self.event(Event::PrimaryRetained { place, caller });
        self.event(Event::PrimaryReleased { place, caller });
    }

    fn context(&self, context: ContextUid) {
        self.event(Event::ContextCreated {
            context,
            handle: 0xc0 + u64::from(context.0),
            place: Place::cuda(1),
        });
    }

    /// Reports an object whose handle is valid only in its context, and memory that is bound to the
    /// object.
    fn object(&self) {
        let space = Space::Object {
            kind: Kind::Buffer,
            context: STAYS,
            copy: 1,
        };
        let key = self.make(Kind::Buffer, space, 0xb0, 0);
        self.event(Event::Bound {
            key,
            memory: 0xb1,
            bytes: 64,
        });
    }

    /// Reports memory that is freed, not freed, freed during a capture, handed over, and freed by
    /// the end of its context.
    fn memory(&self) {
        let caller = self.caller;
        let release = |address| {
            let key = key(address);
            self.begin(Event::FreeBegan { key, caller })
        };
        let context = ContextUid(1);
        self.context(context);
        for address in 1..=5 {
            self.event(created(self.ledger, 1, address));
        }
        self.event(Event::CreationFailed {
            kind: Kind::Linear,
            bytes: u64::MAX,
            error: 2,
            caller,
        });
        self.end(release(1), 0);
        self.end(release(2), FAILED);
        let ticket = release(3);
        self.event(Event::FreeCaptured { ticket });
        self.end(release(77), 0);
        self.event(Event::HandedOver { address: 5 });
        release(4);
        self.event(Event::ContextDestroyed {
            context,
            cause: ContextEnd::Reset,
            caller,
        });
    }

    /// Reports a captured graph whose launches allocate and free memory, and the objects to which
    /// it refers.
    fn graphs(&self) {
        let caller = self.caller;
        let stream = self.make_handle(Kind::Stream, 0x51);
        let graph = self.make_handle(Kind::GraphHandle, 0x6a);
        let node = |address| self.creation(Kind::Linear, Space::DevicePointer, address, 512);
        for address in [0x9000, 0xa000] {
            self.event(Event::GraphAllocates {
                graph: stream,
                made: node(address),
            });
        }
        self.event(Event::NodesMoved {
            from: stream,
            to: Some(graph),
        });
        let address = 0xa000;
        self.event(Event::GraphFrees { graph, address });
        let object = self.make_handle(Kind::UserObject, 0x0b);
        let (key, count) = (object, 4);
        self.event(Event::Retained { key, count });
        self.event(Event::GraphRetained {
            graph,
            key,
            count: 2,
            moved: true,
        });
        let exec = self.make_handle(Kind::ExecGraph, 0xe0);
        self.event(Event::GraphCopied {
            from: graph,
            to: exec,
            auto_free: true,
        });
        let launch = || self.begin(Event::LaunchBegan { exec, caller });
        for error in [0, 0, FAILED] {
            let ticket = launch();
            self.event(Event::LaunchEnded { ticket, error });
        }
        self.event(Event::GraphUpdated { exec, graph });
        let release = |graph| {
            self.begin(Event::ReleaseBegan {
                key,
                count: 1,
                graph,
                caller,
            })
        };
        self.end(release(None), 0);
        self.end(release(Some(graph)), FAILED);
        self.end(release(Some(graph)), 0);
        // The process does not see the end of this launch.
        launch();
    }

    /// Reports physical memory that has two handles and is mapped in two places.
    fn physical_memory(&self) {
        const SIZE: u64 = 2 << 20;
        let caller = self.caller;
        let handle = 0x55;
        self.make(Kind::Physical, Space::PhysicalHandle, handle, SIZE);
        for address in [SIZE, 2 * SIZE] {
            self.event(Event::Mapped {
                address,
                bytes: SIZE,
                handle,
            });
        }
        self.event(Event::HandleRetained {
            handle: 0x56,
            address: SIZE,
        });
        for error in [FAILED, 0] {
            let unmap = self.begin(Event::UnmapBegan {
                address: SIZE,
                bytes: SIZE,
                caller,
            });
            self.end(unmap, error);
        }
    }
}

/// Reports at least one event of each kind to `ledger`.
fn report_one_of_each(ledger: &Ledger) {
    let caller = caller(ledger, 1);
    let reporter = Reporter { ledger, caller };
    reporter.primary();
    reporter.object();
    reporter.memory();
    reporter.context(STAYS);
    reporter.graphs();
    reporter.physical_memory();
}

/// Returns the lines of a recording with one event of each kind, and the ledger that was recorded.
fn recording() -> (Ledger, Vec<Value>) {
    let (live, file) = recorded_ledger();
    report_one_of_each(&live);
    let file = file.bytes();
    let lines = file.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice(line).unwrap());
    (live, lines.collect())
}

fn file_of(lines: &[Value]) -> Vec<u8> {
    let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    lines.concat().into_bytes()
}

/// Returns the names of all kinds of events, as listed in the error message for an unknown kind.
fn all_kinds() -> BTreeSet<String> {
    let error = Event::deserialize(json!("no-such-kind")).unwrap_err();
    let error = error.to_string();
    let (_, expected) = error.split_once("expected one of ").unwrap();
    expected
        .split(", ")
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

#[test]
fn a_replay_of_every_kind_of_event_gives_the_same_ledger() {
    let (live, lines) = recording();
    let (again, source) = replayed(&file_of(&lines)).unwrap();
    assert_same(&live, &again);
    assert_eq!(source.header, header());
    assert!(!source.torn);
    let events = lines.iter().filter_map(|line| line["event"].as_object());
    let recorded: BTreeSet<String> = events.flat_map(|event| event.keys().cloned()).collect();
    assert_eq!(recorded, all_kinds(), "every kind of event is recorded");
}

#[test]
fn tickets_of_another_release_are_translated() {
    let (live, mut lines) = recording();
    // The lines are changed as if they had been written by a release in which the ledger counts
    // differently.
    let mut changed = 0;
    for line in &mut lines {
        let answer = line
            .pointer("/ticket")
            .is_some()
            .then(|| "/ticket".to_owned());
        let kind = line["event"]
            .as_object()
            .and_then(|event| event.keys().next());
        let named = kind.map(|kind| format!("/event/{kind}/ticket"));
        for place in [answer, named].into_iter().flatten() {
            if let Some(ticket) = line.pointer_mut(&place) {
                *ticket = json!(1_000_000 - ticket.as_u64().unwrap());
                changed += 1;
            }
        }
    }
    assert!(changed > 20, "{changed}");
    let (again, _) = replayed(&file_of(&lines)).unwrap();
    assert_same(&live, &again);
}

/// Whatever number an event contains, the result is either a ledger or a single error message.
#[test]
fn strange_numbers_in_events_are_accepted_or_refused() {
    let (_, lines) = recording();
    for index in 0..lines.len() {
        let mut places = Vec::new();
        numbers(&lines[index]["event"], "/event".to_owned(), &mut places);
        for place in places {
            for strange in [u64::MAX, u64::MAX - 1, 1 << 63, 0] {
                let mut changed = lines.clone();
                *changed[index].pointer_mut(&place).unwrap() = json!(strange);
                if let Err(error) = replayed(&file_of(&changed)) {
                    assert!(error.line > index, "{place} of line {index}: {error:?}");
                }
            }
        }
    }
}

/// Collects the paths of the numbers in `value`.
fn numbers(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path),
        Value::Object(fields) => {
            for (name, value) in fields {
                numbers(value, format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}
