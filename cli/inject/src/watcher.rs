//! A thread that takes snapshots at intervals, and when a signal requests one. A process whose
//! first thread has ended through `pthread_exit` ends with its last thread, so this thread ends
//! once it is the last.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check::__inject::{Attached, Cause, Settings};

use crate::signals::{self, Signal};

/// How often the thread checks whether it is the last one.
const LOOKS_FOR_OTHERS: Duration = Duration::from_millis(250);

/// Starts the thread. If that fails, the end of the process is still reported.
pub(crate) fn start(attached: &'static Attached, settings: &Settings) {
    let every = settings.every_ms.map(Duration::from_millis);
    if let Some(signal) = settings.signal
        && !signals::take_over(signal, Signal::Snapshot)
    {
        attached.note(format!(
            "the program handles or ignores {}, so this signal does not trigger a snapshot: choose \
             a different one with --signal",
            signals::name(signal)
        ));
    }
    for signal in signals::ENDING {
        // False means that the program handles or ignores the signal, which is left as it is.
        signals::take_over(signal, Signal::End);
    }
    // The program expects its signals on its own threads.
    let blocked = signals::block_all();
    let watcher = thread::Builder::new().name("gpu-leak-check".into());
    let started = watcher.spawn(move || watch(attached, every));
    drop(blocked);
    if started.is_err() {
        signals::give_back();
        attached.note("cannot start a thread, so no snapshots are taken".to_owned());
    }
}

fn watch(attached: &'static Attached, every: Option<Duration>) {
    let mut next = every.map(|every| Instant::now() + every);
    loop {
        let look = Instant::now() + LOOKS_FOR_OTHERS;
        let received = signals::wait(next.map_or(look, |next| next.min(look)));
        if received.is_none() {
            if is_last() {
                // The C library now calls `exit`, as it would have done after the program's own
                // last thread.
                return;
            }
            if next.is_none_or(|next| Instant::now() < next) {
                continue;
            }
        }
        // An error means that the harness has panicked; the next snapshot may work.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| match received {
            None => attached.snapshot(Cause::Tick),
            Some((signal, _)) => attached.snapshot(Cause::Signal(signals::name(signal))),
        }));
        match received {
            None => next = every.map(|every| Instant::now() + every),
            Some((_, Signal::Snapshot)) => {}
            Some((signal, Signal::End)) => signals::do_as_default(signal),
        }
    }
}

/// Whether all other threads have ended. The first thread remains as a zombie.
fn is_last() -> bool {
    let first = fs::read(format!("/proc/self/task/{}/stat", std::process::id()));
    let has_ended = first.is_ok_and(|stat| {
        let stat = String::from_utf8_lossy(&stat);
        let state = stat.rsplit_once(')').map(|(_, state)| state.trim_start());
        state.is_some_and(|state| state.starts_with('Z'))
    });
    has_ended && fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 2)
}
