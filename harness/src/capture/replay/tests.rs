use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use serde_json::json;

use super::{RecordingError, Replayed, ReplayedRecording, replay};
use crate::capture::record::Recorder;
use crate::capture::recording::{RecordingHeader, SCHEMA, SCHEMA_VERSION};
use crate::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, ScopeId, Space, StackId, ThreadNumber,
};
use crate::ledger::{Kind, Layer, Ledger, Place};

const SCOPE: ScopeId = ScopeId(1);

fn caller(ledger: &Ledger, thread: u32) -> Caller {
    Caller {
        thread: ThreadNumber(thread),
        scope: SCOPE,
        stack: ledger.stacks().intern(&[0x1000 + thread as usize, 0x2000]),
    }
}

fn key(value: u64) -> Key {
    Key::new(Space::DevicePointer, value)
}

fn created(ledger: &Ledger, thread: u32, address: u64) -> Event {
    Event::Created(Creation {
        key: key(address),
        kind: Kind::Linear,
        layer: Layer::DRIVER,
        place: Place::UNKNOWN,
        bytes: 64 + address,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: caller(ledger, thread),
    })
}

/// A file whose contents can be examined.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn header() -> RecordingHeader {
    RecordingHeader {
        schema: SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        version: "0.1.0".to_owned(),
        program: "train".to_owned(),
        pid: 7,
    }
}

/// Returns a ledger that records itself and has an open scope, and the file of the recording.
fn recorded_ledger() -> (Ledger, Shared) {
    let file = Shared::default();
    let recorder = Recorder::new(PathBuf::new());
    recorder.identify(&header(), |_| Ok(Box::new(file.clone())));
    let ledger = Ledger::new();
    ledger.listen(Box::new(move |ledger, event, answer| {
        recorder.event(ledger.stacks(), event, answer);
    }));
    ledger.open_scope(SCOPE);
    (ledger, file)
}

fn replayed(recording: &[u8]) -> Result<(Ledger, ReplayedRecording), RecordingError> {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    let source = replay(recording, &ledger, |item| match item {
        Replayed::Line(line) => Err(format!("unknown {line:?}")),
        Replayed::Event(..) => Ok(()),
    })?;
    Ok((ledger, source))
}

/// Fails unless the two ledgers give the same answers to every query.
#[track_caller]
fn assert_same(live: &Ledger, again: &Ledger) {
    let everything = |ledger: &Ledger| {
        let usage = ledger.snapshot(ScopeId::NONE).usage;
        let kinds = Kind::ALL.map(|kind| ledger.live(kind));
        let stacks: Vec<_> = (0..ledger.stacks().end())
            .map(|id| ledger.stacks().frames(StackId(id)).to_vec())
            .collect();
        (
            (ledger.select(|_| true), usage, kinds, stacks),
            (ledger.contexts.all(), ledger.now()),
            ledger.anomalies.since(crate::ledger::Mark::default()),
            (
                ledger.snapshot(SCOPE).live,
                ledger.snapshot(ScopeId::NONE).unowned,
            ),
            (ledger.unknown_frees(), ledger.frees_in_flight()),
            (ledger.holdings(), ledger.knows_graph_memory()),
        )
    };
    assert_eq!(everything(live), everything(again));
}

/// The threads allocate and free the same few addresses, with calls that succeed and calls that
/// fail. The result of each call depends on the order of all calls.
#[test]
fn a_replay_of_racing_threads_gives_the_same_ledger() {
    const THREADS: u32 = 8;
    let (live, file) = recorded_ledger();
    let start = Barrier::new(THREADS as usize);
    let one_thread = |thread: u32| {
        start.wait();
        for round in 0..200 {
            let address = u64::from(round * thread % 5);
            live.apply(&created(&live, thread, address));
            let caller = caller(&live, thread);
            let key = key(address);
            let ticket = live.apply(&Event::FreeBegan { key, caller });
            live.apply(&Event::FreeEnded {
                ticket: ticket.unwrap(),
                error: u32::from(round % 7 == 0),
                stack: caller.stack,
            });
        }
    };
    thread::scope(|scope| {
        for thread in 1..=THREADS {
            let one_thread = &one_thread;
            scope.spawn(move || one_thread(thread));
        }
    });
    let (again, _) = replayed(&file.bytes()).unwrap();
    assert_same(&live, &again);
}

/// Returns the error for a recording that consists of a header and these lines.
fn error_in(lines: &[serde_json::Value]) -> (usize, String) {
    let mut recording = serde_json::to_value(header()).unwrap();
    recording["record"] = json!("header");
    let mut recording = format!("{recording}\n");
    lines
        .iter()
        .for_each(|line| recording += &format!("{line}\n"));
    let RecordingError { line, problem } = replayed(recording.as_bytes()).unwrap_err();
    (line, problem)
}

#[test]
fn an_impossible_event_is_reported_with_its_line() {
    let ended = json!({"free-ended": {"ticket": 5, "error": 0, "stack": 0}});
    let retained = json!({"primary-retained": {"place": "cuda:0", "caller": {"thread": 1, "scope": 0, "stack": 0}}});
    let named = json!({"free-ended": {"ticket": 5, "error": 1, "stack": 9}});
    let event =
        |order: u64, event| json!({"record": "event", "order": order, "event": event, "at_us": 1});
    let stack = |id: u64| json!({"record": "stack", "id": id, "addresses": [1, 2]});
    for (lines, line, what) in [
        (vec![event(1, ended)], 2, "no free with the ticket 5"),
        (vec![event(1, named)], 2, "there is no stack 9"),
        (
            vec![event(2, retained.clone())],
            2,
            "event 2 directly follows event 0",
        ),
        (
            vec![event(1, retained.clone()), event(1, retained.clone())],
            3,
            "event 1 directly follows event 1",
        ),
        (vec![event(1, json!("lost"))], 2, "event: unknown variant"),
        (
            vec![event(u64::MAX, retained)],
            2,
            "directly follows event 0",
        ),
        (vec![stack(0)], 2, "stack 0 is empty"),
        (vec![stack(1), stack(1)], 3, "is a duplicate"),
        (vec![stack(1 << 30)], 2, "an invalid number"),
        (vec![stack(1 << 40)], 2, "stack: invalid value"),
        (vec![json!({"record": 3})], 2, "it has no field `record`"),
        (vec![json!([1, 2])], 2, "it has no field `record`"),
        (vec![json!({"record": "event"})], 2, "event: missing field"),
    ] {
        let found = error_in(&lines);
        assert_eq!(found.0, line, "{found:?}");
        assert!(found.1.contains(what), "{found:?} is not {what:?}");
    }
}

#[test]
fn a_later_schema_is_refused_with_the_version_that_wrote_it() {
    let header = json!({
        "record": "header", "schema": SCHEMA, "schema_version": SCHEMA_VERSION + 1,
        "version": "9.1.0", "what_comes_later": [],
    });
    let RecordingError { line, problem } = replayed(format!("{header}\n").as_bytes()).unwrap_err();
    assert_eq!(line, 1);
    assert!(
        problem.contains("written by gpu-leak-check 9.1.0")
            && problem.contains("use a newer release"),
        "{problem}"
    );
}

#[test]
fn a_file_of_another_kind_is_refused() {
    for (file, line) in [
        ("", 0),
        ("{\"record\":\"hea", 0),
        ("{\"record\":\"header\",\"schema\":1}\n", 1),
        ("{\"record\":\"stack\",\"id\":1,\"addresses\":[1]}\n", 1),
        ("plain text\n", 1),
        ("\n", 1),
        ("\u{0}\n", 1),
    ] {
        assert_eq!(
            replayed(file.as_bytes()).unwrap_err().line,
            line,
            "{file:?}"
        );
    }
    assert_eq!(replayed(b"\xff\xfe\n").unwrap_err().line, 1);
}

#[test]
fn a_failed_write_is_noted_once() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let recorder = Recorder::new(PathBuf::from("/full/disk"));
    assert_eq!(recorder.note(), None);
    recorder.identify(&header(), |_| Ok(Box::new(Full)));
    let ledger = Ledger::new();
    recorder.event(ledger.stacks(), &created(&ledger, 1, 1), None);
    let note = recorder.note().unwrap();
    assert!(note.contains("cannot write /full/disk"), "{note}");
    assert_eq!(recorder.note(), None, "noted once");
}

#[test]
fn events_before_the_header_are_written_after_it() {
    let file = Shared::default();
    let recorder = Recorder::new(PathBuf::new());
    let ledger = Ledger::new();
    recorder.event(ledger.stacks(), &created(&ledger, 1, 1), None);
    assert!(file.bytes().is_empty());
    recorder.identify(&header(), |_| Ok(Box::new(file.clone())));
    recorder.identify(&header(), |_| panic!("a second file was created"));
    let (again, _) = replayed(&file.bytes()).unwrap();
    assert_eq!(again.select(|_| true).len(), 1);
}

mod event_kinds;
