//! Adds to the recording of the process what is needed to judge a check again: the fact that the
//! check began, and the input of its judgement. No other part of `check` knows that there is a
//! recording.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

use crate::capture::record::recorder_of_this_process as recorder;
use crate::capture::recording::{Line, RecordedSymbol};
use crate::judge::{CheckInput, Subject};
use crate::ledger::event::Event;
use crate::ledger::{self, StackId};
use crate::observe;
use crate::recursion_guard::quiet;
use crate::report::check_report::Frame;
use crate::report::symbols;
use crate::sync::{Mutex, locked};

/// Records that a check begins.
pub(crate) fn began(subject: &Subject) {
    add_lines(|| vec![Line::CheckBegan(subject.clone())]);
}

/// Records the input of a check that has ended.
pub(crate) fn add(input: &CheckInput) {
    add_lines(|| {
        let mut lines = new_symbols();
        let mut input = input.clone();
        for frame in input.names.frames.values_mut().flatten() {
            remove_machine_specific_path(frame);
        }
        lines.push(Line::Check(Box::new(input)));
        lines
    });
}

fn add_lines(lines: impl FnOnce() -> Vec<Line<Event>>) {
    if let Some(recorder) = recorder() {
        let _quiet = quiet();
        let lines = lines();
        ledger::live().between_events(|| recorder.add(&lines));
    }
}

/// What the recording already contains.
#[derive(Debug, Default)]
struct Written {
    /// The ID of the first backtrace that has not been examined.
    stack: u32,
    addresses: FxHashSet<usize>,
    /// The number of source directories of allocators that were known when the symbols were
    /// written.
    own_sources: usize,
}

static WRITTEN: LazyLock<Mutex<Written>> = LazyLock::new(Mutex::default);

/// Returns lines for those addresses in backtraces that the recording does not contain yet.
fn new_symbols() -> Vec<Line<Event>> {
    let mut written = locked(&WRITTEN);
    let own_sources = observe::own_sources();
    if written.own_sources != own_sources.len() {
        // The owner of a file may have changed, so all symbols are written again.
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
        let new = symbols::by_word(StackId(stack), &own_sources, is_new);
        lines.extend(new.into_iter().map(|(address, mut frames)| {
            frames.iter_mut().for_each(remove_machine_specific_path);
            Line::Symbol(RecordedSymbol { address, frames })
        }));
    }
    written.stack = end;
    lines
}

/// Removes the directory in which cargo or rustup keeps sources from the path of a frame's file,
/// because it depends on the machine.
fn remove_machine_specific_path(frame: &mut Frame) {
    const SHARED: [&str; 3] = ["/registry/src/", "/git/checkouts/", "/lib/rustlib/src/"];
    if let Some(file) = &mut frame.file
        && let Some(at) = SHARED.iter().find_map(|directory| file.find(directory))
    {
        *file = file[at..].into();
    }
}
