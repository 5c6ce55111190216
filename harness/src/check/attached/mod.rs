//! An unmodified program as one check: from the driver's initialisation to the end of its process.
//!
//! There is no body to run twice and no baseline: what the process holds at its end is all there
//! is to see. So the report tells apart what a library or a caching allocator is known to keep from
//! what nobody is, and what grew from one snapshot to the next.
//!
//! Nothing here calls the driver. Inside `cuInit` it must not be called, at the process's exit it no
//! longer can be, and a program that is not ours should not wait for its devices because of us.

mod living;
mod trend;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use self::living::{AtExit, Living};
use self::trend::{ENOUGH, Trend};
use super::blind;
use super::conclude;
use super::conclude::finding::left_after;
use super::conclude::sites::{Met, Sites};
use super::conclude::tables;
use super::names::Live;
use crate::__inject::Settings;
use crate::allow::{self, Date, Entry};
use crate::api::cuda::{self, Reach};
use crate::config;
use crate::device::exit;
use crate::device::quiet::quiet;
use crate::judge::{Confirmed, Held, Reading};
use crate::ledger;
use crate::options::Options;
use crate::report::json::Snapshot;
use crate::report::model::{Finding, Report, Verdict};
use crate::report::{Sink, headline};
use crate::units::quantity;

/// Of a command line, in characters.
const LONGEST_NAME: usize = 100;

static NAMES: Live = Live;
static ATTACHED: OnceLock<Attached> = OnceLock::new();

/// Why a snapshot is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its time has come.
    Tick,
    /// The signal of this name asks for it, or ends the process.
    Signal(String),
    /// The process has begun to exit.
    Exit,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tick => out.write_str("tick"),
            Self::Signal(name) => out.write_str(name),
            Self::Exit => out.write_str("exit"),
        }
    }
}

/// This process as a check that has begun.
#[derive(Debug)]
pub struct Attached {
    name: String,
    file: String,
    again: Option<String>,
    every: Option<Duration>,
    began: Instant,
    allowed: Vec<Entry>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The places of the program, by the stacks that the trend knows them by.
    met: Met,
    trend: Trend,
    notes: Vec<String>,
    /// What was live when the process began to exit.
    exit: Option<AtExit>,
    told: bool,
}

impl State {
    fn living(&mut self) -> Living {
        let mut sites = Sites::after(&NAMES, std::mem::take(&mut self.met));
        let living = Living::now(self.exit.as_ref(), &mut sites);
        self.met = sites.into_met();
        living
    }
}

/// Begins to listen to this process, inside its `cuInit`; none where it cannot be heard, which its
/// file then says.
pub fn attach(settings: &Settings) -> Option<&'static Attached> {
    let _quiet = quiet();
    let mut notes = Vec::new();
    let allowed = config::allowed(&Options::DEFAULT, None).unwrap_or_else(|why| {
        notes.push(why);
        Vec::new()
    });
    let name = settings.name.clone().unwrap_or_else(command_line);
    let attached = Attached {
        name,
        file: executable(),
        again: settings.again.clone(),
        every: settings.every_ms.map(Duration::from_millis),
        began: Instant::now(),
        allowed,
        state: Mutex::new(State {
            met: Met::new(),
            trend: Trend::default(),
            notes,
            exit: None,
            told: false,
        }),
    };
    let sink = Sink::global();
    sink.began(&attached.name, &attached.file, 0);
    ledger::live().own_all();
    if cuda::reach() != Reach::EveryLookup {
        let report = attached.report(&Reading::default(), Vec::new(), Vec::new());
        sink.finished(&Report {
            verdict: Verdict::NotMeasured,
            reason: Some(blind::unheard()),
            ..report
        });
        return None;
    }
    let attached = ATTACHED.get_or_init(|| attached);
    exit::at_exit(|| {
        if let Some(attached) = ATTACHED.get() {
            attached.exit_began();
        }
    });
    Some(attached)
}

impl Attached {
    /// Adds something to know to every report from now on.
    pub fn note(&self, note: String) {
        self.state().notes.push(note);
    }

    /// Writes down what is live now.
    pub fn snapshot(&self, cause: Cause) {
        if !exit::may_tell() {
            return;
        }
        let _quiet = quiet();
        let mut state = self.state();
        if state.told {
            return;
        }
        let living = state.living();
        if cause == Cause::Tick {
            state.trend.add(&living);
        }
        let report = self.report_of(&living, &state);
        let line = match &cause {
            Cause::Signal(name) => Some(format!("at {name}: {}", headline(&report))),
            Cause::Tick | Cause::Exit => None,
        };
        Sink::global().snapshot(Snapshot {
            cause: cause.to_string(),
            after_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            report: Cow::Owned(report),
        });
        // Not before: a snapshot written after the verdict would stay beside it.
        drop(state);
        if let Some(line) = line {
            say(&line);
        }
    }

    /// The process has begun to exit. What it frees from now on counts as freed; what ends with its
    /// contexts from now on does not, for the driver takes itself down.
    ///
    /// Called where the process [may tell](exit::may_tell).
    fn exit_began(&self) {
        self.snapshot(Cause::Exit);
        let _quiet = quiet();
        let mut state = self.state();
        state.exit = Some(AtExit::now());
    }

    /// Judges the process, which ends now.
    pub fn finish(&self) {
        if !exit::may_tell() {
            return;
        }
        let _quiet = quiet();
        let mut state = self.state();
        if std::mem::replace(&mut state.told, true) {
            return;
        }
        let living = state.living();
        let report = self.report_of(&living, &state);
        Sink::global().finished(&report);
        Sink::global().forget_snapshot();
    }

    fn report_of(&self, living: &Living, state: &State) -> Report {
        let growing = state.trend.growing();
        let is_growing = |held: &Held| growing.iter().any(|grown| grown.is(held));
        let plain = living.held.iter().filter(|held| !is_growing(held));
        let plain = plain.map(|held| living::tell(finding(held), held));
        let grown = growing.iter().map(|grown| Finding {
            verdict: Verdict::Grew,
            rounds: left_after(&grown.levels),
            ..finding(&grown.held)
        });
        let findings = grown.chain(plain).collect();
        let mut notes = state.notes.clone();
        notes.extend(self.about_snapshots(state.trend.count()));
        let mut report = self.report(&living.reading, findings, notes);
        if let Some(reason) = blind::of_program() {
            report
                .notes
                .push(format!("{}; {}", reason.what, reason.remedy));
            if matches!(report.verdict, Verdict::Clean | Verdict::Allowed) {
                report.verdict = Verdict::Inconclusive;
                report.reason = Some(reason);
            }
        }
        report
    }

    fn about_snapshots(&self, taken: u64) -> Option<String> {
        let every = shown(self.every?);
        let taken_so_far = quantity(taken, "snapshot");
        Some(match taken < ENOUGH as u64 {
            true => format!(
                "{taken_so_far}, one every {every}: too few to tell what grows, which takes {ENOUGH}"
            ),
            false => format!(
                "{taken_so_far}, one every {every}: what gained in each of the last {ENOUGH} grew"
            ),
        })
    }

    fn report(
        &self,
        reading: &Reading,
        mut findings: Vec<Finding>,
        mut notes: Vec<String>,
    ) -> Report {
        notes.extend(allow::settle(&self.allowed, Date::today(), &mut findings));
        conclude::sort(&mut findings);
        let verdict = findings.first().map(|finding| finding.verdict);
        Report {
            findings,
            devices: tables::tables(&Reading::default(), reading, &NAMES),
            notes,
            again: self.again.clone(),
            ..Report::new(
                &self.name,
                &self.file,
                0,
                0,
                verdict.unwrap_or(Verdict::Clean),
            )
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `2 s`, `250 ms`
fn shown(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

fn finding(held: &Held) -> Finding {
    conclude::finding::finding(&Confirmed::unconfirmed(held.clone()), None, &NAMES)
}

/// `python3 train.py --epochs 3`
fn command_line() -> String {
    let line = fs::read("/proc/self/cmdline").unwrap_or_default();
    shortened(&line).unwrap_or_else(executable)
}

/// The words of a command line, each ended by a zero byte, the program without its folders; none
/// where nothing is left. A program may have written whatever it likes there.
fn shortened(line: &[u8]) -> Option<String> {
    let words = line.split(|byte| *byte == 0);
    let mut words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let program = words.first()?.trim_end().to_owned();
    if let Some(short) = Path::new(&program).file_name() {
        words[0] = short.to_string_lossy().into_owned().into();
    }
    let name = words.join(" ").trim_end().to_owned();
    if name.is_empty() {
        return None;
    }
    Some(match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    })
}

fn executable() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.to_string_lossy().into_owned()
}

/// Answers whoever sends a signal.
fn say(line: &str) {
    // Err: nobody listens any more; the terminal that hangs up sends a signal itself.
    let _ = writeln!(io::stderr(), "gpu-leak-check: {line}");
}

#[cfg(test)]
mod tests;
