//! Applies the events of a recording to another ledger.
//!
//! The file is not trusted. Whatever it contains, the result is either a ledger or a single error
//! message.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::recording::{Line, RecordedEvent, RecordingHeader, SCHEMA, SCHEMA_VERSION, Stack};
use crate::ledger::event::{Event, Ticket};
use crate::ledger::{Ledger, StackId};

/// A recording that has been read to its end.
#[derive(Debug)]
pub(crate) struct ReplayedRecording {
    pub(crate) header: RecordingHeader,
    /// Whether the last line is incomplete, because the process ended while writing it.
    pub(crate) torn: bool,
}

/// An error in a recording.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordingError {
    /// The line, counted from 1; 0 if the error concerns the whole file.
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// An item of a recording. Items are passed on in the order of the file.
#[derive(Debug)]
pub(crate) enum Replayed<'a> {
    /// A line of a check.
    Line(Line<Value>),
    /// An event that the ledger has just applied, the ledger's answer, and the event's time in the
    /// recording.
    Event(&'a Event, Option<Ticket>, u64),
}

/// Applies the events in `recording` to `ledger`, which must be empty. Events and the lines of
/// checks are passed to `visit` in order.
///
/// # Errors
/// Returns the problem with the first invalid line.
pub(crate) fn replay(
    recording: &[u8],
    ledger: &Ledger,
    mut visit: impl FnMut(Replayed<'_>) -> Result<(), String>,
) -> Result<ReplayedRecording, RecordingError> {
    let mut header = None;
    let mut torn = false;
    let mut events = Events::default();
    for (index, line) in recording.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let error = |problem| RecordingError {
            line: index + 1,
            problem,
        };
        let Some(line) = line.strip_suffix(b"\n") else {
            torn = true;
            break;
        };
        let value: Value = serde_json::from_slice(line).map_err(|why| {
            let why = why.to_string().replace(" at line 1 column", " at column");
            error(format!(
                "{why}: the file is damaged, so record the program again"
            ))
        })?;
        let line = read(value).map_err(error)?;
        match (line, &header) {
            (Line::Header(first), None) => header = Some(first),
            (Line::Header(_), Some(_)) => {
                return Err(error(
                    "a second header: two processes wrote this file; put `%p` in \
                     GPU_LEAK_CHECK_RECORD to give each process its own file"
                        .to_owned(),
                ));
            }
            (_, None) => return Err(error("a recording begins with its header".to_owned())),
            (Line::Stack(stack), Some(_)) => restore(ledger, &stack).map_err(error)?,
            (Line::Event(recorded_event), Some(_)) => {
                let at_us = recorded_event.at_us;
                let (event, answer) = events.event(ledger, recorded_event).map_err(error)?;
                visit(Replayed::Event(&event, answer, at_us)).map_err(error)?;
            }
            (line, Some(_)) => visit(Replayed::Line(line)).map_err(error)?,
        }
    }
    match header {
        Some(header) => Ok(ReplayedRecording { header, torn }),
        None => Err(RecordingError {
            line: 0,
            problem: "the file has no complete line: the process ended before its first check ran"
                .to_owned(),
        }),
    }
}

fn read(value: Value) -> Result<Line<Value>, String> {
    let record = value.get("record").and_then(Value::as_str);
    let Some(record) = record.map(str::to_owned) else {
        return Err(
            "this line does not belong to a recording: it has no field `record`".to_owned(),
        );
    };
    if record == "header" {
        check_header(&value)?;
    }
    match &*record {
        "header" => of(value, Line::Header),
        "stack" => of(value, Line::Stack),
        "event" => of(value, Line::Event),
        "symbol" => of(value, Line::Symbol),
        "check-began" => of(value, Line::CheckBegan),
        "check" => of(value, Line::Check),
        _ => Err("unknown kind of record".to_owned()),
    }
    .map_err(|error| format!("{record}: {error}"))
}

/// Reads the contents of a line whose kind is known. [`Line`] is not deserialised as a tagged type,
/// because serde would then generate a second way to read everything.
fn of<T: DeserializeOwned>(
    value: Value,
    line: impl FnOnce(T) -> Line<Value>,
) -> Result<Line<Value>, String> {
    serde_json::from_value(value)
        .map(line)
        .map_err(|error| error.to_string())
}

/// Rejects a header of another kind of file, or of a later release.
fn check_header(header: &Value) -> Result<(), String> {
    let text = |name| header.get(name).and_then(Value::as_str);
    if text("schema") != Some(SCHEMA) {
        return Err(format!(
            "this is not a recording: its schema is not {SCHEMA}"
        ));
    }
    match header.get("schema_version").and_then(Value::as_u64) {
        Some(version) if version > u64::from(SCHEMA_VERSION) => Err(format!(
            "written by gpu-leak-check {} with version {version} of the schema; this release \
             reads only versions up to {SCHEMA_VERSION}: use a newer release",
            text("version").unwrap_or("(unknown)")
        )),
        Some(1..) => Ok(()),
        _ => Err("schema_version must be a whole number, 1 or greater".to_owned()),
    }
}

/// Adds a backtrace to those of the ledger.
fn restore(ledger: &Ledger, stack: &Stack) -> Result<(), String> {
    match ledger.stacks().restore(stack.id, &stack.addresses) {
        true => Ok(()),
        false => Err(format!(
            "stack {} is empty, is a duplicate, or has an invalid number",
            stack.id.0
        )),
    }
}

/// Whether this is the ID of a backtrace, or 0, which stands for none.
fn is_stack(ledger: &Ledger, number: u64) -> bool {
    let frames = |number| ledger.stacks().frames(StackId(number));
    number == 0 || u32::try_from(number).is_ok_and(|number| !frames(number).is_empty())
}

/// Applies events.
#[derive(Debug, Default)]
struct Events {
    /// The number of the last event.
    order: u64,
    /// Maps the tickets of the recorded ledger to those of this ledger.
    tickets: HashMap<u64, Ticket>,
}

impl Events {
    fn event(
        &mut self,
        ledger: &Ledger,
        mut recorded_event: RecordedEvent<Value>,
    ) -> Result<(Event, Option<Ticket>), String> {
        let (last, order) = (self.order, recorded_event.order);
        if last.checked_add(1) != Some(order) {
            return Err(format!("event {order} directly follows event {last}"));
        }
        self.order = order;
        self.translate(ledger, &mut recorded_event.event)?;
        let event =
            Event::deserialize(recorded_event.event).map_err(|error| format!("event: {error}"))?;
        let answer = ledger.apply(&event);
        if let (Some(recorded), Some(answered)) = (recorded_event.ticket, answer) {
            self.tickets.insert(recorded.0, answered);
        }
        Ok((event, answer))
    }

    /// Replaces the tickets of the recorded ledger with those of this ledger, and verifies that
    /// every backtrace is known. It relies only on the names of fields, whatever the event is: each
    /// ticket is called `ticket` and each backtrace `stack`.
    fn translate(&mut self, ledger: &Ledger, event: &mut Value) -> Result<(), String> {
        match event {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (&**name, value.as_u64()) {
                        ("ticket", Some(recorded)) => {
                            let ticket = self.tickets.remove(&recorded).ok_or_else(|| {
                                format!("no free with the ticket {recorded} is in flight")
                            })?;
                            *value = ticket.0.into();
                        }
                        ("stack", Some(stack)) if !is_stack(ledger, stack) => {
                            return Err(format!("there is no stack {stack}"));
                        }
                        _ => self.translate(ledger, value)?,
                    }
                }
                Ok(())
            }
            Value::Array(values) => values
                .iter_mut()
                .try_for_each(|it| self.translate(ledger, it)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
