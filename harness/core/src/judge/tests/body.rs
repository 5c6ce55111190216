//! Lets a test describe the runs of a check, and compares the result of the judgement as text.

use std::fmt::Write;

use crate::judge::{CheckInput, CheckResult, Facts, LayerName, LayerUsage, LiveRecord};
use crate::judge::{Ownership, RunInput, judge};
use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space, ThreadNumber};
use crate::ledger::{
    Anomaly, FailedCall, Kind, Layer, MeterReading, Place, Record, ScopeId, SiteUsage, StackId,
};
use crate::report::{Finding, Frame, Owner};

/// Returns the device on which everything is allocated, unless a test says otherwise.
pub(super) fn gpu() -> Place {
    Place::cuda(0)
}

/// A check whose runs are added one after the other.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) input: CheckInput,
    live: Vec<LiveRecord>,
    events: u64,
}

/// A run of the body that has not ended yet.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) input: RunInput,
    body: &'a mut Body,
}

/// Returns a check that is confirmed by further runs.
pub(super) fn check() -> Body {
    let mut input = CheckInput {
        facts: Facts {
            confirm: true,
            rounds: 1,
            ..Facts::default()
        },
        ..CheckInput::default()
    };
    input.subject.test = "tests::it".to_owned();
    Body {
        input,
        live: Vec::new(),
        events: 0,
    }
}

/// Returns a check that runs its body several times to detect growth.
pub(super) fn rounds(rounds: u32) -> Body {
    let mut check = check();
    check.input.facts.rounds = rounds;
    check
}

/// Returns a frame of the program. The frame at line 10, for example, is in the function `step10`.
pub(super) fn frame(line: u32) -> Frame {
    Frame {
        function: Some(format!("app::step{line}").into()),
        file: Some("src/app.rs".into()),
        line: Some(line),
        ..Frame::default()
    }
}

/// Returns a frame of a library without source lines.
pub(super) fn library(module: &str, function: &str, owner: Owner) -> Frame {
    Frame {
        function: Some(function.into()),
        module: Some(module.into()),
        owner,
        ..Frame::default()
    }
}

pub(super) fn usage(name: LayerName, allocated: u64, reserved: u64) -> LayerUsage {
    LayerUsage {
        allocated,
        reserved: Some(reserved),
        ..LayerUsage::new(name, gpu())
    }
}

/// Returns a reading of the driver's layer with this peak.
pub(super) fn reading(peak: u64) -> MeterReading {
    MeterReading {
        layer: Layer::DRIVER,
        place: gpu(),
        made: 3,
        total: peak,
        peak,
        peak_at: 0,
        at_peak: Vec::new(),
        by_bytes: Vec::new(),
        in_turn: Vec::new(),
        lifetimes: Vec::new(),
        lost: 0,
    }
}

/// Returns the contribution of a line to a peak, and the first and the last event that allocated
/// there.
pub(super) fn site(line: u32, count: u64, bytes: u64, allocated: (u64, u64)) -> SiteUsage {
    SiteUsage {
        stack: StackId(line),
        count,
        bytes,
        allocated,
    }
}

impl Body {
    /// Adds a run of the body.
    pub(super) fn run(&mut self, body: impl FnOnce(&mut Run<'_>)) -> &mut Self {
        let mut run = Run {
            input: RunInput {
                began: self.events,
                as_expected: true,
                saw_events: true,
                ..RunInput::default()
            },
            body: self,
        };
        body(&mut run);
        let Run { mut input, .. } = run;
        input.ended = self.events;
        input.live = self.live.clone();
        self.input.runs.push(input);
        self
    }

    /// Returns the creation of linear memory with a size of 0.
    pub(super) fn creation(line: u32, address: u64) -> Creation {
        Creation {
            key: Key::new(Space::DevicePointer, address),
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: gpu(),
            bytes: 0,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller {
                thread: ThreadNumber(1),
                scope: ScopeId(1),
                stack: StackId(line),
            },
        }
    }

    /// Sets the frames of a backtrace. Otherwise, a backtrace has one frame, whose line number is
    /// the backtrace's ID.
    pub(super) fn stack(&mut self, stack: u32, frames: &[Frame]) -> &mut Self {
        self.input
            .names
            .frames
            .insert(StackId(stack), frames.to_vec());
        self
    }

    /// Asserts the result of the judgement: the status, then a line for each finding and note.
    #[track_caller]
    pub(super) fn reports(&self, expected: &str) {
        let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
        let text = self.text();
        let text: Vec<_> = text.trim().lines().map(str::trim).collect();
        assert!(text == expected, "reported:\n{}\n", text.join("\n"));
    }

    fn text(&self) -> String {
        let CheckResult {
            status,
            reason,
            findings,
            records,
            notes,
            unbound,
        } = judge(&self.input);
        let mut text = status.name().to_owned();
        if let Some(reason) = reason {
            let _ = write!(
                text,
                " because of {}: {}; {}",
                reason.code.name(),
                reason.what,
                reason.remedy
            );
        }
        for (finding, records) in findings.iter().zip(records) {
            let _ = write!(text, "\n{}; records {records:?}", describe(finding));
        }
        for note in notes {
            let _ = write!(text, "\nnote: {note}");
        }
        if let Some(sentence) = unbound {
            let _ = write!(text, "\nunbound: {sentence}");
        }
        text
    }
}

/// Describes a finding. Fields with their usual values are left out.
fn describe(finding: &Finding) -> String {
    let usual = Finding::new(
        finding.kind,
        finding.layer,
        finding.place,
        finding.site.clone(),
    );
    let usual = serde_json::to_value(usual).expect("data");
    let all = serde_json::to_value(finding).expect("data");
    let kind = finding.resource.map_or("reserve", Kind::name);
    let mut text = format!(
        "{}: {} × {kind} on {} at {}",
        finding.kind.name(),
        finding.count,
        finding.place,
        finding.site.location()
    );
    if finding.layer != Layer::DRIVER {
        let _ = write!(text, " by {}", finding.layer);
    }
    for (field, value) in all.as_object().expect("fields") {
        let is_shown = ["resource", "count"].contains(&field.as_str());
        if is_shown || usual.get(field) == Some(value) {
            continue;
        }
        let value = match field.as_str() {
            "failed" => finding.failed.as_ref().map_or_else(String::new, |failed| {
                format!(
                    "{} ({}) at {}",
                    failed.error,
                    failed.code,
                    failed.site.location()
                )
            }),
            _ => value.to_string().replace(['"', '\\'], ""),
        };
        let _ = write!(text, "; {field} {value}");
    }
    text
}

impl Run<'_> {
    /// Allocates this much linear memory at a line.
    pub(super) fn take(&mut self, line: u32, bytes: u64) -> u64 {
        self.make(line, |made| made.bytes = bytes)
    }

    /// Creates a resource at a line: linear memory with a size of 0, unless `change` makes it
    /// something else. Returns its sequence number.
    pub(super) fn make(&mut self, line: u32, change: impl FnOnce(&mut Creation)) -> u64 {
        let sequence = self.body.events;
        let mut made = Body::creation(line, 0x1000 * (sequence + 1));
        change(&mut made);
        self.body.events += 1;
        let frames = &mut self.body.input.names.frames;
        frames
            .entry(made.caller.stack)
            .or_insert_with(|| vec![frame(line)]);
        *self.input.allocations.entry(made.caller.stack).or_default() += 1;
        let record = Record { sequence, made };
        self.body.live.push(LiveRecord::own(record));
        sequence
    }

    /// Frees the record with this sequence number.
    pub(super) fn free(&mut self, sequence: u64) -> Record {
        let at = self
            .body
            .live
            .iter()
            .position(|it| it.record.sequence == sequence);
        self.body.events += 1;
        self.body.live.remove(at.expect("it is live")).record
    }

    /// Changes the owner of a record.
    pub(super) fn give(&mut self, sequence: u64, owner: Ownership) {
        let mut all = self.body.live.iter_mut();
        let it = all.find(|it| it.record.sequence == sequence);
        it.expect("it is live").owner = owner;
    }

    pub(super) fn caller(&mut self, line: u32) -> Caller {
        let frames = &mut self.body.input.names.frames;
        frames
            .entry(StackId(line))
            .or_insert_with(|| vec![frame(line)]);
        Caller {
            thread: ThreadNumber(1),
            scope: ScopeId(1),
            stack: StackId(line),
        }
    }

    /// Makes a call at a line fail to free the record with this sequence number.
    pub(super) fn fail_to_free(&mut self, sequence: u64, line: u32, error: u32) {
        let caller = self.caller(line);
        let mut all = self.body.live.iter();
        let it = all
            .find(|it| it.record.sequence == sequence)
            .expect("it is live");
        self.input.anomalies.push(Anomaly::FailedFree(FailedCall {
            key: it.record.key(),
            record: Some(it.record),
            caller,
            error,
        }));
    }
}
