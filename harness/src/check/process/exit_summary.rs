//! The summary of all checks of this process, which is printed when the process exits.

use std::env;
use std::sync::{LazyLock, Once};

use crate::capture::record::{Recorder, recorder_of_this_process};
use crate::capture::thread;
use crate::check::scopes::hooks;
use crate::check::scopes::open::process;
use crate::check::turn::{child, concurrency};
use crate::device::start::BeforeFirstThread;
use crate::report::run_file::{self, Aborted, Record, RunFile};
use crate::report::{Sink, Summary, text};
use crate::sync::{Mutex, locked};
use crate::{exit, observe, registry};

static SUMMARY: LazyLock<Mutex<Summary>> = LazyLock::new(Mutex::default);

/// The checks that have begun and not ended yet.
static UNDER_WAY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A check in progress. If the process ends while this value is alive, the check is aborted.
#[derive(Debug)]
pub(crate) struct UnderWay(String);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = locked(&UNDER_WAY);
        let this = under_way.iter().rposition(|test| *test == self.0);
        this.map(|at| under_way.remove(at));
    }
}

#[must_use = "the check is over when this is dropped"]
pub(crate) fn began(test: &str) -> UnderWay {
    locked(&UNDER_WAY).push(test.to_owned());
    print_at_exit();
    UnderWay(test.to_owned())
}

/// Changes the summary of this process.
pub(crate) fn change(change: impl FnOnce(&mut Summary)) {
    change(&mut locked(&SUMMARY));
    print_at_exit();
}

/// Takes the summary, so that another process can print it.
pub(crate) fn take() -> Summary {
    let mut summary = std::mem::take(&mut *locked(&SUMMARY));
    add_notes(&mut summary);
    summary
}

/// Prints the summary at process exit, except under nextest, which runs each test in its own
/// process and prints its own summary.
pub(crate) fn print_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if env::var_os("NEXTEST").is_none() {
            exit::at_exit(print);
        }
    });
}

fn print() {
    let mut summary = std::mem::take(&mut *locked(&SUMMARY));
    // The parent process reports the end of an isolated test.
    let aborted = match concurrency::is_isolated() {
        true => Vec::new(),
        false => std::mem::take(&mut *locked(&UNDER_WAY)),
    };
    for thread in unchecked_threads() {
        summary.add_unchecked(&thread);
    }
    if summary.is_empty() && aborted.is_empty() {
        return;
    }
    for test in aborted {
        summary.add_aborted(&test);
        let pid = std::process::id();
        Sink::global().write(&Record::Aborted(Aborted { pid, test }));
    }
    if !concurrency::is_isolated() {
        add_other_processes(&mut summary);
    }
    add_notes(&mut summary);
    if let Some(text) = summary.text() {
        text::tell(&format!("\n{text}"));
    }
}

inventory::submit!(BeforeFirstThread(watch_unchecked_tests));

/// In a test program with checked tests, watches the other tests from the beginning. The tests that
/// run unchecked and create something are listed in the summary and in the run file.
fn watch_unchecked_tests() {
    // Everything in the process of an isolated test is judged.
    if registry::cases().is_empty() || child::permit().is_some() {
        return;
    }
    observe::listen();
    hooks::install();
    print_at_exit();
    exit::at_exit(|| Sink::global().unchecked(&unchecked_threads()));
}

/// Returns the threads that ran unchecked and created something. If a process is judged as a whole,
/// nothing in it is unchecked.
fn unchecked_threads() -> Vec<String> {
    match process().is_some() || registry::cases().is_empty() {
        true => Vec::new(),
        false => thread::outside_any_check(),
    }
}

/// Adds the checks during which other processes ended and that no process has reported yet.
fn add_other_processes(summary: &mut Summary) {
    for aborted in unreported() {
        // If this was an isolated test, its parent has reported its end.
        if !summary.has_aborted(&aborted.test) {
            summary.add_aborted(&aborted.test);
        }
        Sink::global().write(&Record::Aborted(aborted));
    }
}

/// Returns the checks during which their process ended, so that it could not report them. The next
/// process of the same run reports them, unless another process has already done so.
fn unreported() -> Vec<Aborted> {
    let paths = Sink::global().neighbours();
    let files: Vec<RunFile> = paths
        .iter()
        .filter_map(|path| run_file::read(path).ok())
        .collect();
    let is_reported = |aborted: &Aborted| {
        files
            .iter()
            .any(|file| file.reported_aborted.contains(aborted))
    };
    let ended = files.iter().filter_map(|file| {
        let header = file.header.as_ref()?;
        // If it is unknown whether the process is running, it is assumed to be.
        let has_ended = header.is_running() == Some(false);
        has_ended.then_some((header.pid, file))
    });
    let aborted = ended.flat_map(|(pid, file)| {
        file.aborted.iter().map(move |began| Aborted {
            pid,
            test: began.test.clone(),
        })
    });
    aborted.filter(|aborted| !is_reported(aborted)).collect()
}

/// Adds notes about a run file or a recording that cannot be written.
fn add_notes(summary: &mut Summary) {
    let of_recorder = recorder_of_this_process().and_then(Recorder::note);
    for note in Sink::global().note().into_iter().chain(of_recorder) {
        summary.note(&note);
    }
}
