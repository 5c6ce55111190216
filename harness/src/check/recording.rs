//! What a check adds to the recording of its process, so that it can be judged again: that it began,
//! and everything that its judgement looked at. Nothing else knows that a recording is made.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::capture::record::recorder_of_this_process as recorder;
use crate::device::quiet::quiet;
use crate::judge::{CheckInput, Subject};
use crate::ledger::{self, StackId};
use crate::observe;
use crate::report::model::Frame;
use crate::report::symbols;

/// A line of a check.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum CheckLine {
    /// What a return address is.
    Symbol(RecordedSymbol),
    /// A check begins.
    CheckBegan(Subject),
    /// A check is over.
    Check(Box<CheckInput>),
}

/// A return address, as this process knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordedSymbol {
    pub(crate) address: usize,
    /// Innermost first: inlined calls.
    pub(crate) frames: Vec<Frame>,
}

/// A check begins.
pub(crate) fn began(subject: &Subject) {
    add_lines(|| vec![CheckLine::CheckBegan(subject.clone())]);
}

/// A check is over: all that it is judged by.
pub(crate) fn add(input: &CheckInput) {
    add_lines(|| {
        let mut lines = new_symbols();
        let mut input = input.clone();
        for frame in input.names.frames.values_mut().flatten() {
            remove_what_is_this_machines(frame);
        }
        lines.push(CheckLine::Check(Box::new(input)));
        lines
    });
}

fn add_lines(lines: impl FnOnce() -> Vec<CheckLine>) {
    if let Some(recorder) = recorder() {
        let _quiet = quiet();
        let lines = lines();
        ledger::live().between_events(|| recorder.add(&lines));
    }
}

/// What the recording has of the stacks.
#[derive(Debug, Default)]
struct Written {
    /// The first stack that was not looked at.
    stack: u32,
    addresses: FxHashSet<usize>,
    /// How many folders of allocators' own sources were known.
    own_sources: usize,
}

static WRITTEN: Mutex<Option<Written>> = Mutex::new(None);

/// The addresses in the stacks so far that have not been written down yet.
fn new_symbols() -> Vec<CheckLine> {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let written = written.get_or_insert_default();
    let own_sources = observe::own_sources();
    if written.own_sources != own_sources.len() {
        // Whose a file is may be another's now.
        *written = Written {
            own_sources: own_sources.len(),
            ..Written::default()
        };
    }
    let stacks = ledger::live().stacks();
    let end = stacks.end();
    let mut lines = Vec::new();
    for stack in written.stack..end {
        let is_new = |address| written.addresses.insert(address);
        let new = symbols::by_word(stacks.frames(StackId(stack)), &own_sources, is_new);
        lines.extend(new.into_iter().map(|(address, mut frames)| {
            frames.iter_mut().for_each(remove_what_is_this_machines);
            CheckLine::Symbol(RecordedSymbol { address, frames })
        }));
    }
    written.stack = end;
    lines
}

/// Where cargo and rustup keep sources says something of the machine and nothing of the frame.
fn remove_what_is_this_machines(frame: &mut Frame) {
    const SHARED: [&str; 3] = ["/registry/src/", "/git/checkouts/", "/lib/rustlib/src/"];
    if let Some(file) = &mut frame.file
        && let Some(at) = SHARED.iter().find_map(|folder| file.find(folder))
    {
        file.drain(..at);
    }
}
