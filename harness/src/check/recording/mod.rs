//! What a check adds to the recording of its process, so that it can be judged again: its scopes
//! where they begin and end among the events, what was read there, and what the report is told by
//! name.

mod line;

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashSet;

pub(crate) use self::line::{
    Began, Blind, BodyEnded, Concluded, Finished, Limits, Line, Looked, Runs, Scope, Seen, Symbol,
    Told,
};
use super::blind::Blindness;
use super::names::{Live, Names};
use crate::capture::record::recorder_of_this_process as recorder;
use crate::device::contexts::DeviceName;
use crate::device::quiet::quiet;
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{self, Kind, Place, ScopeId, StackId};
use crate::observe;
use crate::options::Expect;
use crate::report::allocators::Allocator;
use crate::report::model::{Frame, Report, Site};
use crate::report::symbols;

/// Whether a recording is being made.
pub(crate) fn is_on() -> bool {
    recorder().is_some()
}

/// Writes down what the return addresses so far are. It takes time, which is better spent here than
/// between two events.
pub(crate) fn symbols_so_far() {
    add(new_symbols);
}

// What follows is to be called between two events.

/// A scope is open.
pub(crate) fn opened(scope: ScopeId, part_of: Option<ScopeId>) {
    add(|| vec![Line::Opened(Scope { scope, part_of })]);
}

/// A run begins.
pub(crate) fn began(began: &Began) {
    add(|| vec![Line::Began(began.clone())]);
}

/// A body has ended.
pub(crate) fn body_ended(ended: &BodyEnded) {
    add(|| vec![Line::BodyEnded(ended.clone())]);
}

/// What it left is judged.
pub(crate) fn looked(looked: &Looked) {
    add(|| {
        let mut lines = new_symbols();
        lines.push(Line::Looked(looked.clone()));
        lines
    });
}

/// A scope is no longer open.
pub(crate) fn closed(scope: ScopeId) {
    add(|| {
        vec![Line::Closed(Scope {
            scope,
            part_of: None,
        })]
    });
}

/// A run is over.
pub(crate) fn finished(finished: Finished) {
    add(|| vec![Line::Finished(finished)]);
}

fn add(lines: impl FnOnce() -> Vec<Line>) {
    if let Some(recorder) = recorder() {
        let _quiet = quiet();
        recorder.add(&lines());
    }
}

/// Has `conclude` put the runs of one check together, and writes down what that takes.
pub(crate) fn concluded(
    runs: Runs,
    blindness: Option<&Blindness>,
    expect: Option<Expect>,
    conclude: impl FnOnce(&dyn Names) -> Report,
) -> Report {
    if !is_on() {
        return conclude(&Live);
    }
    let asked = Asked::default();
    let report = conclude(&asked);
    add(|| {
        vec![Line::Concluded(Box::new(Concluded {
            test: report.test.clone(),
            file: report.file.clone(),
            line: report.line,
            column: report.column,
            again: report.again.clone(),
            runs,
            expect,
            blind: blindness.map(|blindness| Blind {
                verdict: blindness.verdict,
                reason: blindness.reason.clone(),
            }),
            told: asked.0.into_inner(),
        }))]
    });
    report
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
fn new_symbols() -> Vec<Line> {
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
        lines.extend(new.into_iter().map(|(address, frames)| {
            let frames = frames.into_iter().map(without_this_machine).collect();
            Line::Symbol(Symbol { address, frames })
        }));
    }
    written.stack = end;
    lines
}

/// Where cargo and rustup keep sources tells something of the machine and nothing of the frame.
fn without_this_machine(mut frame: Frame) -> Frame {
    const SHARED: [&str; 3] = ["/registry/src/", "/git/checkouts/", "/lib/rustlib/src/"];
    if let Some(file) = &mut frame.file
        && let Some(at) = SHARED.iter().find_map(|folder| file.find(folder))
    {
        file.drain(..at);
    }
    frame
}

/// This process, with a note of what was asked.
#[derive(Debug, Default)]
struct Asked(RefCell<Told>);

impl Names for Asked {
    fn site(&self, stack: StackId, kind: Kind) -> Site {
        Live.site(stack, kind)
    }

    fn is_cudas_own(&self, stack: StackId) -> bool {
        Live.is_cudas_own(stack)
    }

    fn allocator(&self, stack: StackId) -> Option<&'static Allocator> {
        Live.allocator(stack)
    }

    fn device(&self, place: Place) -> Option<DeviceName> {
        let name = Live.device(place)?;
        self.0.borrow_mut().devices.push((place, name.clone()));
        Some(name)
    }

    fn error(&self, error: CuResult) -> String {
        let name = Live.error(error);
        self.0.borrow_mut().errors.push((error, name.clone()));
        name
    }

    fn thread(&self, thread: ThreadNumber) -> String {
        let name = Live.thread(thread);
        self.0.borrow_mut().threads.push((thread, name.clone()));
        name
    }

    fn culprit(&self) -> Option<String> {
        let culprit = Live.culprit();
        self.0.borrow_mut().culprit.clone_from(&culprit);
        culprit
    }
    fn resident_threads(&self, place: Place) -> u64 {
        let threads = Live.resident_threads(place);
        self.0.borrow_mut().resident_threads.push((place, threads));
        threads
    }

    fn has_neighbours(&self) -> bool {
        let neighbours = Live.has_neighbours();
        self.0.borrow_mut().neighbours = neighbours;
        neighbours
    }

    fn misled(&self) -> Option<String> {
        let misled = Live.misled();
        self.0.borrow_mut().misled.clone_from(&misled);
        misled
    }
}
