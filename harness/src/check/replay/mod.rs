//! Judges again what a recording says, by the code that judges live.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod movements;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::blind::Blindness;
use super::conclude::expect;
use super::conclude::rounds::Growing;
use super::conclude::{Subject, conclude, conclude_rounds};
use super::measure::Measured;
use super::measure::stretch::{Ended, Left, Stretch};
use super::names::Names;
use super::recording::{Began, Concluded, Finished, Line, Looked, Runs, Scope, Told};
use crate::allow::Entry;
use crate::capture::recording::Header;
use crate::capture::replay::{self as events, Heard, Wrong};
use crate::device::contexts::DeviceName;
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{Kind, Ledger, Place, Returned, ScopeId, StackId};
use crate::order;
use crate::report;
use crate::report::allocators::{self, Allocator};
use crate::report::model::{Frame, Owner, Report, Site};
use crate::report::symbols::assembled;

/// What a recording comes to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Replay {
    /// Who wrote it, and where.
    pub header: Header,
    /// The checks that came to their end, in that order. What a check cost, and by which
    /// file it was configured, is not recorded.
    pub reports: Vec<Report>,
    /// The tests whose checks did not.
    pub unfinished: Vec<String>,
    /// Whether the last line is cut off, and left out: the process ended while it wrote.
    pub torn: bool,
}

/// Judges every check in the recording at `path`, where what `allowed` says may stay.
pub(crate) fn replay(path: &Path, allowed: &[Entry]) -> io::Result<Replay> {
    let recording = fs::read(path)?;
    judge(&recording, allowed).map_err(|wrong| told_of(path, &wrong))
}

/// What is wrong with the recording at `path`, with its place.
pub(crate) fn told_of(path: &Path, Wrong { line, what }: &Wrong) -> io::Error {
    let path = path.display();
    let sentence = match line {
        0 => format!("{path}: {what}"),
        line => format!("{path}:{line}: {what}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, sentence)
}

pub(crate) fn judge(recording: &[u8], allowed: &[Entry]) -> Result<Replay, Wrong> {
    let ledger = Ledger::new();
    let mut checks = Checks::new(&ledger, allowed);
    let source = events::replay(recording, &ledger, |heard| match heard {
        Heard::Line(line) => checks.line(line),
        Heard::Event(..) => Ok(()),
    })?;
    let unfinished = checks.unfinished();
    Ok(Replay {
        header: source.header,
        torn: source.torn,
        unfinished,
        reports: checks.reports,
    })
}

/// The checks of a recording, as far as it was read.
#[derive(Debug)]
struct Checks<'ledger> {
    ledger: &'ledger Ledger,
    /// What may stay.
    allowed: &'ledger [Entry],
    symbols: HashMap<usize, Vec<Frame>>,
    /// Every scope so far: numbers are not used again.
    scopes: HashSet<ScopeId>,
    /// The runs that began and are not over.
    open: HashMap<ScopeId, Run<'ledger>>,
    /// Those that are over and in no report yet, with their tests.
    measured: HashMap<ScopeId, (String, Measured)>,
    reports: Vec<Report>,
}

/// A run that began and is not over.
#[derive(Debug)]
struct Run<'ledger> {
    test: String,
    stretch: Stretch<'ledger>,
    /// Once its body has ended.
    ended: Option<Ended>,
    /// What it left, once that was judged.
    left: Option<Left>,
    /// What its scope gave back of others', once it was closed.
    returned: Returned,
}

impl<'ledger> Checks<'ledger> {
    fn new(ledger: &'ledger Ledger, allowed: &'ledger [Entry]) -> Self {
        Self {
            ledger,
            allowed,
            symbols: HashMap::new(),
            scopes: HashSet::new(),
            open: HashMap::new(),
            measured: HashMap::new(),
            reports: Vec::new(),
        }
    }

    fn line(&mut self, line: Value) -> Result<(), String> {
        match Line::deserialize(line).map_err(|error| error.to_string())? {
            Line::Symbol(symbol) => {
                self.symbols.insert(symbol.address, symbol.frames);
                Ok(())
            }
            Line::Opened(opened) => self.opened(opened),
            Line::Began(began) => self.began(began),
            Line::BodyEnded(ended) => {
                let run = self.run(ended.scope)?;
                run.ended = Some(run.stretch.ended(&ended));
                Ok(())
            }
            Line::Looked(looked) => self.looked(&looked),
            Line::Closed(closed) => {
                let returned = self.ledger.close_scope(closed.scope);
                match self.open.get_mut(&closed.scope) {
                    Some(run) if run.left.is_some() => run.returned = returned,
                    // Dropped before anybody judged it.
                    Some(_) => drop(self.open.remove(&closed.scope)),
                    // A warm-up has a scope and no run.
                    None => {}
                }
                Ok(())
            }
            Line::Finished(finished) => self.finished(finished),
            Line::Concluded(concluded) => self.concluded(&concluded),
        }
    }

    fn run(&mut self, scope: ScopeId) -> Result<&mut Run<'ledger>, String> {
        let run = self.open.get_mut(&scope);
        run.ok_or_else(|| format!("nothing runs in scope {}", scope.0))
    }

    fn opened(&mut self, Scope { scope, part_of }: Scope) -> Result<(), String> {
        let is_a_scope = scope != ScopeId::NONE && scope != ScopeId::NOBODY;
        let is_new = is_a_scope && self.scopes.insert(scope);
        let opened = || match part_of {
            Some(outer) => self.ledger.open_part(scope, outer),
            None => self.ledger.open_scope(scope),
        };
        if is_new && opened() {
            return Ok(());
        }
        Err(format!("scope {} cannot be opened", scope.0))
    }

    fn began(&mut self, began: Began) -> Result<(), String> {
        let scope = began.scope;
        let is_open = |scope: &ScopeId| self.ledger.is_open(*scope);
        let outer = began
            .outer
            .filter(|outer| *outer >= scope || !is_open(outer));
        if let Some(scope) = outer.or(Some(scope).filter(|scope| !is_open(scope))) {
            return Err(format!("scope {} is not open", scope.0));
        }
        let run = Run {
            test: began.test.clone(),
            stretch: Stretch::began(self.ledger, began),
            ended: None,
            left: None,
            returned: Returned::default(),
        };
        match self.open.insert(scope, run) {
            None => Ok(()),
            Some(_) => Err(format!("something runs in scope {} already", scope.0)),
        }
    }

    fn looked(&mut self, looked: &Looked) -> Result<(), String> {
        let told = Told::default();
        let names = self.names(&told);
        let run = self.open.get(&looked.scope);
        let left = run.map(|run| run.stretch.look(looked, &names));
        self.run(looked.scope)?.left = left;
        Ok(())
    }

    fn finished(&mut self, finished: Finished) -> Result<(), String> {
        let scope = finished.scope;
        self.run(scope)?;
        let run = self.open.remove(&scope);
        let Some(Run {
            test,
            stretch,
            ended: Some(ended),
            left: Some(left),
            returned,
        }) = run
        else {
            return Err(format!("nobody looked at scope {}", scope.0));
        };
        let told = Told::default();
        let measured = stretch.finished(finished, ended, left, returned, &self.names(&told));
        self.measured.insert(scope, (test, measured));
        Ok(())
    }

    fn concluded(&mut self, concluded: &Concluded) -> Result<(), String> {
        let blindness = concluded.blind.as_ref().map(|blind| Blindness {
            verdict: blind.verdict,
            reason: blind.reason.clone(),
            driver_in_use: true,
        });
        let blindness = blindness.as_ref();
        let subject = Subject {
            test: &concluded.test,
            file: &concluded.file,
            line: concluded.line,
            column: concluded.column,
            again: concluded.again.clone(),
            allowed: self.allowed.to_vec(),
        };
        let mut report = match &concluded.runs {
            Runs::Once(first, second) => {
                let first = self.take(*first)?;
                let second = second.map(|second| self.take(second)).transpose()?;
                let names = self.names(&concluded.told);
                conclude(subject, &first, second.as_ref(), blindness, &names)
            }
            Runs::Rounds(scopes) => {
                let rounds: Result<Vec<_>, _> = scopes.iter().map(|s| self.take(*s)).collect();
                let mut rounds = rounds?.into_iter();
                let first = rounds.next().ok_or("there is not one round")?;
                let names = self.names(&concluded.told);
                let rounds = rounds.fold(Growing::new(first, &names), Growing::with);
                conclude_rounds(subject, &rounds.finish(), blindness, &names)
            }
        };
        if let Some(expect) = concluded.expect.filter(|_| blindness.is_none()) {
            // What is not met stays as it was found.
            let _ = expect::settle(expect, &mut report);
        }
        self.reports.push(report);
        Ok(())
    }

    fn take(&mut self, scope: ScopeId) -> Result<Measured, String> {
        let measured = self.measured.remove(&scope);
        let measured = measured.map(|(_, measured)| measured);
        measured.ok_or_else(|| format!("scope {} has no run that is over", scope.0))
    }

    fn names<'a>(&'a self, told: &'a Told) -> Recorded<'a> {
        Recorded {
            ledger: self.ledger,
            symbols: &self.symbols,
            told,
        }
    }

    /// The tests whose checks came to no end, each once.
    fn unfinished(&self) -> Vec<String> {
        let open = self.open.values().map(|run| &run.test);
        let measured = self.measured.values().map(|(test, _)| test);
        let mut tests: Vec<_> = open.chain(measured).cloned().collect();
        order::natural(&mut tests);
        tests.dedup();
        tests
    }
}

/// What the recorded process knew.
#[derive(Debug)]
struct Recorded<'a> {
    ledger: &'a Ledger,
    symbols: &'a HashMap<usize, Vec<Frame>>,
    told: &'a Told,
}

impl Recorded<'_> {
    fn frames(&self, stack: StackId) -> Vec<Frame> {
        frames_of(self.ledger, self.symbols, stack)
    }
}

/// The frames of a stack, by what the recording says of its addresses.
pub(crate) fn frames_of(
    ledger: &Ledger,
    symbols: &HashMap<usize, Vec<Frame>>,
    stack: StackId,
) -> Vec<Frame> {
    let words = ledger.stacks().frames(stack).iter();
    assembled(words.map(|word| {
        let unknown = || {
            vec![Frame {
                offset: Some(*word as u64),
                owner: Owner::Native,
                ..Frame::default()
            }]
        };
        (*word, symbols.get(word).cloned().unwrap_or_else(unknown))
    }))
}

impl Names for Recorded<'_> {
    fn site(&self, stack: StackId, kind: Kind) -> Site {
        report::site_of(self.frames(stack), kind)
    }

    fn is_cudas_own(&self, stack: StackId) -> bool {
        report::is_cudas_own_frames(&self.frames(stack))
    }

    fn allocator(&self, stack: StackId) -> Option<&'static Allocator> {
        allocators::of(&self.frames(stack))
    }

    fn device(&self, place: Place) -> Option<DeviceName> {
        answer(&self.told.devices, &place)
    }

    fn error(&self, error: CuResult) -> String {
        answer(&self.told.errors, &error).unwrap_or_else(|| format!("CUresult {error}"))
    }

    fn thread(&self, thread: ThreadNumber) -> String {
        answer(&self.told.threads, &thread).unwrap_or_else(|| format!("thread {}", thread.0))
    }

    fn culprit(&self) -> Option<String> {
        self.told.culprit.clone()
    }

    fn resident_threads(&self, place: Place) -> u64 {
        answer(&self.told.resident_threads, &place).unwrap_or(0)
    }

    fn has_neighbours(&self) -> bool {
        self.told.neighbours
    }

    fn misled(&self) -> Option<String> {
        self.told.misled.clone()
    }
}

fn answer<Q: PartialEq, A: Clone>(answers: &[(Q, A)], question: &Q) -> Option<A> {
    let found = answers.iter().find(|(asked, _)| asked == question);
    found.map(|(_, answer)| answer.clone())
}
