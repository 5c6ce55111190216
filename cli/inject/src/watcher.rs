//! A thread that takes snapshots: at ticks, and when a signal asks for one.

use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check::__inject::{Attached, Cause, Settings};

use crate::signals::{self, Signal};

/// Starts it. Without it the end of the process is reported all the same.
pub(crate) fn start(attached: &'static Attached, settings: &Settings) {
    let every = settings.every_ms.map(Duration::from_millis);
    if let Some(signal) = settings.signal
        && !signals::take_over(signal, Signal::Asks)
    {
        attached.note(format!(
            "the program handles {} itself, so none asks for a snapshot: choose another by --signal",
            signals::name(signal)
        ));
    }
    for signal in signals::ENDING {
        // False: the program handles or ignores it, and goes on as it does.
        signals::take_over(signal, Signal::Ends);
    }
    // The program's signals are for its own threads.
    let blocked = signals::block_all();
    let watcher = thread::Builder::new().name("gpu-leak-check".into());
    let started = watcher.spawn(move || watch(attached, every));
    drop(blocked);
    if started.is_err() {
        signals::give_back();
        attached.note("no thread could be started, so there are no snapshots".to_owned());
    }
}

fn watch(attached: &'static Attached, every: Option<Duration>) {
    let mut next = every.map(|every| Instant::now() + every);
    loop {
        let came = signals::wait(next);
        // Err: one snapshot less.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| match came {
            None => attached.snapshot(Cause::Tick),
            Some((signal, _)) => attached.snapshot(Cause::Signal(signals::name(signal))),
        }));
        match came {
            None => next = every.map(|every| Instant::now() + every),
            Some((_, Signal::Asks)) => {}
            Some((signal, Signal::Ends)) => signals::do_as_default(signal),
        }
    }
}
