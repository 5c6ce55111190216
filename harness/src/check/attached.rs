//! Checks an unmodified program as a whole, from the initialisation of the driver to the end of the
//! process. For `cargo gpu-leak test --every-test`, the program is a single test. If that program
//! links this library, the check may also begin with an allocator's first report.
//!
//! There is no body that could run twice and no baseline. The check knows only which resources the
//! process holds. So the report separates resources that a library or a caching allocator is known
//! to keep from all others, and shows growth from one snapshot to the next.
//!
//! The code in this module takes no readings from the driver. Inside `cuInit` this is forbidden, and
//! at process exit it is no longer possible. Moreover, the harness should not make someone else's
//! program wait for its devices. Only for the report of a snapshot is the driver asked for names of
//! devices and errors.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpu_leak_interpose::uncancelled;
use rustc_hash::FxHashSet;

use super::collect::OfRun;
use super::process::prepare::listen;
use super::run::PeakLog;
use super::scopes::open::{open_process, process};
use super::scopes::tree::Lineage;
use super::session::Session;
use super::{blind, holders, outcome, readings, turn};
use crate::api::{self, Reach, before_initialisation};
use crate::case::Case;
use crate::config::CheckSettings;
use crate::device::start::BeforeFirstThread;
use crate::exec_settings::Settings;
use crate::judge::{ENOUGH_SNAPSHOTS, LiveRecord, Ownership, RunInput, Subject};
use crate::ledger::{self, Amount, Anomaly, Mark, Record, ScopeId};
use crate::options::Options;
use crate::recursion_guard::quiet;
use crate::report::check_report::{CheckStatus, Report};
use crate::report::run_file::ProcessSnapshot;
use crate::report::{Sink, headline};
use crate::sync::{Mutex, MutexGuard, OnceLock, locked};
use crate::units::quantity;
use crate::{exit, observe, registry};

/// The largest number of characters in a name that is made from a command line.
const LONGEST_NAME: usize = 100;

static ATTACHED: OnceLock<Attached> = OnceLock::new();

/// Why a snapshot is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The interval between two snapshots has passed.
    Tick,
    /// A signal with this name requests a snapshot or ends the process.
    Signal(String),
    /// The process has begun to exit.
    Exit,
}

/// The check of this process, which has already begun.
#[derive(Debug)]
pub struct Attached {
    every: Option<Duration>,
    is_test: bool,
    began: Instant,
    state: Mutex<AttachedState>,
    /// Provides the peaks, if the policy requests them.
    log: Option<PeakLog>,
}

#[derive(Debug)]
struct AttachedState {
    session: Option<Session>,
    notes: Vec<String>,
    /// The records that were live when the program's interpreter began to shut down. Once the
    /// process exits, the list is reduced to the records that the interpreter has freed. `None`
    /// before the shutdown.
    held_by_interpreter: Option<Vec<Record>>,
    /// The position in the list of anomalies when the process began to exit.
    exit: Option<Mark>,
}

/// Begins to watch this process, inside its `cuInit`. If calls to the driver cannot be intercepted,
/// records this in the run file and returns `None`.
pub fn attach(settings: &Settings) -> Option<&'static Attached> {
    let _quiet = quiet();
    let mut notes = Vec::new();
    let subject = Subject {
        test: settings.name.clone().unwrap_or_else(command_line),
        file: executable(),
        line: 0,
        column: 0,
        again: settings.again.clone(),
    };
    let sink = Sink::global();
    sink.began(&subject.test, &subject.file, 0);
    ledger::live().own_all();
    let check_settings = CheckSettings::of(&subject.test, None, &Options::DEFAULT, &[])
        .unwrap_or_else(|why| {
            notes.push(why);
            CheckSettings::default()
        });
    if api::reach() != Reach::EveryLookup {
        let mut report = Report {
            reason: Some(blind::unheard()),
            notes,
            ..Report::about(subject, CheckStatus::NotMeasured)
        };
        report.outcome = settings
            .is_test
            .then(|| outcome::weigh(&report, &check_settings.policy, None));
        sink.finished(&report);
        return None;
    }
    let log = check_settings
        .policy
        .peaks
        .then(|| PeakLog::begin(ScopeId::NONE));
    let session = Session::new(subject, check_settings, turn::none()).of_process(settings.is_test);
    let attached = Attached {
        log,
        every: settings.every_ms.map(Duration::from_millis),
        is_test: settings.is_test,
        began: Instant::now(),
        state: Mutex::new(AttachedState {
            session: Some(session),
            notes,
            held_by_interpreter: None,
            exit: None,
        }),
    };
    let attached = ATTACHED.get_or_init(|| attached);
    api::find_bindings_before_exit();
    exit::at_exit(|| {
        if let Some(attached) = ATTACHED.get() {
            attached.exit_began();
        }
    });
    Some(attached)
}

inventory::submit!(BeforeFirstThread(watch_this_program));

/// Prepares to watch this program if it is a test that `--every-test` started. A test is not
/// watched if it checks itself, or if it uses neither the driver nor an allocator that reports its
/// blocks.
fn watch_this_program() {
    let Some(settings) = Settings::for_contained_library() else {
        return;
    };
    let checks_itself = |case: &&Case| settings.name.as_deref() == Some(case.name());
    if registry::cases().iter().any(checks_itself) {
        return;
    }
    listen(None, "");
    open_process();
    exit::at_exit(|| {
        if let Some(attached) = ATTACHED.get() {
            attached.finish();
        }
    });
    observe::before_each_allocation(|address| {
        at_first_use();
        holders::reported_by_allocator(address);
    });
    before_initialisation(at_first_use);
}

fn at_first_use() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    // Another thread does not wait here, because it may hold a lock for which this one waits.
    if !IS_DONE.swap(true, Ordering::Relaxed)
        && let Some(settings) = Settings::for_contained_library()
    {
        uncancelled(|| attach(&settings));
    }
}

impl Attached {
    /// Adds a note to all reports from now on.
    pub fn note(&self, note: String) {
        self.state().notes.push(note);
    }

    /// Writes a snapshot of the live records.
    pub fn snapshot(&self, cause: Cause) {
        if !exit::may_report() {
            return;
        }
        let _quiet = quiet();
        let mut state = self.state();
        let held = held_now(&state, self.log.as_ref());
        // Frees that happen while the program shuts down do not disprove growth.
        let shuts_down = state.exit.is_some() || state.held_by_interpreter.is_some();
        let Some(session) = &mut state.session else {
            return;
        };
        let report = session.preview(held, cause == Cause::Tick && !shuts_down);
        let taken = session.snapshots();
        let report = self.with_notes(report, &state.notes, taken);
        let (cause, line) = match cause {
            Cause::Signal(name) => {
                let line = format!("at {name}: {}", headline(&report));
                (name, Some(line))
            }
            Cause::Tick => ("tick".to_owned(), None),
            Cause::Exit => ("exit".to_owned(), None),
        };
        Sink::global().snapshot(&ProcessSnapshot {
            cause,
            after_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            report,
        });
        if let Some(line) = line {
            print_line(&line);
        }
        // The lock is held until here. Otherwise, a snapshot could be written after the verdict and
        // remain next to it, or a process that ends at that moment could leave an incomplete line.
        drop(state);
    }

    /// Records that the interpreter that runs the program has begun to shut down. From now on, it
    /// frees resources that its globals hold. These are reported, but are not a failure.
    pub fn interpreter_ends(&self) {
        if !exit::may_report() {
            return;
        }
        // After a keyboard interrupt, the interpreter ends by the signal, without exit handlers.
        self.snapshot(Cause::Exit);
        let _quiet = quiet();
        self.state().held_by_interpreter = Some(ledger::live().select(|_| true));
    }

    /// Records that the process has begun to exit. From now on, resources that the process frees
    /// count as freed. Resources that end with its contexts do not count as freed, because the
    /// driver is shutting down.
    ///
    /// Call this only if the harness's data [may be read](exit::may_report).
    fn exit_began(&self) {
        self.snapshot(Cause::Exit);
        let _quiet = quiet();
        let mut state = self.state();
        let ledger = ledger::live();
        state.exit = Some(ledger.anomalies.mark());
        // What is still live was not held by the interpreter's variables, even if the program's own
        // exit handlers free it later.
        let live: FxHashSet<u64> = ledger
            .select(|_| true)
            .iter()
            .map(|it| it.sequence)
            .collect();
        if let Some(held) = &mut state.held_by_interpreter {
            held.retain(|record| !live.contains(&record.sequence));
        }
    }

    /// Judges the process, which is about to end.
    pub fn finish(&self) {
        if !exit::may_report() {
            return;
        }
        let _quiet = quiet();
        let mut state = self.state();
        let Some(mut session) = state.session.take() else {
            return;
        };
        session.preview(held_now(&state, self.log.as_ref()), false);
        let taken = session.snapshots();
        let mut report = self.with_notes(session.finish().report, &state.notes, taken);
        // If the program is not a test, the command decides its outcome.
        report.outcome = report.outcome.filter(|_| self.is_test);
        let sink = Sink::global();
        sink.finished(&report);
        sink.forget_snapshot();
        // For example, a program that has dropped its privileges may not write to the file.
        if let Some(why) = sink.note() {
            print_line(&why);
        }
    }

    fn with_notes(&self, mut report: Report, notes: &[String], taken: u64) -> Report {
        report.notes.extend(notes.iter().cloned());
        report.notes.extend(self.snapshots_note(taken));
        report
    }

    /// Returns a note on the `taken` snapshots; `None` if no snapshots are taken at intervals.
    fn snapshots_note(&self, taken: u64) -> Option<String> {
        let every = shown(self.every?);
        let taken_so_far = quantity(taken, "snapshot");
        let what = match taken < ENOUGH_SNAPSHOTS as u64 {
            true => format!("too few to detect growth, which requires {ENOUGH_SNAPSHOTS}"),
            false => format!(
                "call sites that grew in each of the last {ENOUGH_SNAPSHOTS} snapshots are reported as \
                 growth"
            ),
        };
        Some(format!("{taken_so_far}, one every {every}: {what}"))
    }

    fn state(&self) -> MutexGuard<'_, AttachedState> {
        locked(&self.state)
    }
}

/// Formats a duration, as in `2 s` or `250 ms`.
fn shown(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

/// Returns all live records, and the records that the interpreter freed as it shut down. Once the
/// process exits, also returns the records that have ended with their contexts since then.
fn held_now(state: &AttachedState, log: Option<&PeakLog>) -> RunInput {
    let ledger = ledger::live();
    let mut records = ledger.select(|_| true);
    let (anomalies, since_exit) = match state.exit {
        Some(exit) => (ledger.anomalies.before(exit), ledger.anomalies.since(exit)),
        None => (ledger.anomalies.since(Mark::default()), Vec::new()),
    };
    records.extend(since_exit.iter().filter_map(Anomaly::ended));
    let lineage = process().map(Lineage::of).unwrap_or_default();
    // A record that is both live and ended counts once.
    let mut sequences = FxHashSet::default();
    records.retain(|Record { sequence, .. }| {
        sequences.insert(*sequence) && !lineage.was_left_again(*sequence)
    });
    let freed_by_shutdown = match state.exit {
        Some(_) => state.held_by_interpreter.clone().unwrap_or_default(),
        None => Vec::new(),
    };
    let all = records.iter().chain(&freed_by_shutdown);
    let stacks = all.map(|record| record.made.caller.stack);
    let counted = |stack| Some((stack, ledger.allocations(stack, ScopeId::NONE)?));
    let allocations = stacks.filter_map(counted).collect();
    let mut handed_over = Amount::default();
    let of_process = OfRun {
        lineage: &lineage,
        failure: None,
    };
    let owned = |record: Record| {
        let owner = match record.made.caller.scope {
            ScopeId::NOBODY => {
                handed_over.add(record.made.bytes);
                Ownership::HandedOver
            }
            _ => of_process.own(&record),
        };
        LiveRecord { record, owner }
    };
    let live = records.into_iter().map(owned).collect();
    let (peaks, graphs) = log.map(PeakLog::read_peaks).unwrap_or_default();
    RunInput {
        as_expected: true,
        allocations,
        holdings: ledger.holdings().into_iter().collect(),
        end: readings::of_counters(&ledger.snapshot(ScopeId::NONE), &[]),
        // Events are numbered from 1.
        saw_events: ledger.now() > 1,
        live,
        peaks,
        graphs,
        freed_by_shutdown,
        anomalies,
        handed_over,
        ..RunInput::default()
    }
}

/// Returns the command line of this process, such as `python3 train.py --epochs 3`.
fn command_line() -> String {
    // The file in `/proc/self` is empty once the first thread has ended.
    let line = fs::read("/proc/thread-self/cmdline").unwrap_or_default();
    shortened(&line).unwrap_or_else(executable)
}

/// Returns the words of a command line without the directories of the program; `None` if nothing is
/// left. In `line`, each word ends with a zero byte. A program may have overwritten its command
/// line with anything.
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

/// Prints a line to standard error with a single write.
fn print_line(line: &str) {
    let line = format!("gpu-leak-check: {line}\n");
    // An error means that nothing reads standard error any more.
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests;
