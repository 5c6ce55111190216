//! Forwards signals that the command receives to the program that it runs.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator;

use crate::exit::{ExitResult, Failure};

/// The signals that this process catches instead of being ended by them.
pub(super) struct Signals(iterator::Signals);

impl Signals {
    pub(super) fn catch() -> ExitResult<Self> {
        iterator::Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
            .map(Self)
            .map_err(|why| Failure::usage(format!("cannot install signal handlers: {why}")))
    }

    /// Forwards signals to `child` until it has ended.
    pub(super) fn forward_to(mut self, child: Child) -> io::Result<ExitStatus> {
        let recipient = Recipient::new(&child);
        let forwarded = recipient.clone();
        thread::spawn(move || {
            for signal in &mut self.0 {
                // A terminal sends these two to the program as well.
                if !matches!(signal, SIGINT | SIGQUIT) {
                    forwarded.send(signal);
                }
            }
        });
        recipient.wait(child)
    }
}

/// The process ID of a running child. It is removed before the child is reaped, since the system
/// may give the ID to another process from then on.
#[derive(Clone, Debug)]
struct Recipient(Arc<Mutex<Option<Pid>>>);

impl Recipient {
    fn new(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self(Arc::new(Mutex::new(pid)))
    }

    /// Sends the child a signal. Returns false if the child has ended.
    fn send(&self, signal: i32) -> bool {
        let signal = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            SIGUSR1 => Signal::USR1,
            _ => Signal::USR2,
        };
        let pid = self.pid();
        pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    fn wait(&self, mut child: Child) -> io::Result<ExitStatus> {
        let pid = *self.pid();
        if let Some(pid) = pid {
            // With `NOWAIT`, the ended child keeps its process ID until `Child::wait` below reaps
            // it.
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // An error is reported by `Child::wait`, which fails in the same way.
            let _: Result<_, Errno> = retry_on_intr(|| waitid(WaitId::Pid(pid), end));
        }
        *self.pid() = None;
        child.wait()
    }

    fn pid(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::{Recipient, SIGTERM};

    #[test]
    fn no_signal_is_sent_after_the_program_was_waited_for() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let recipient = Recipient::new(&child);
        assert!(recipient.send(SIGTERM));
        assert_eq!(recipient.wait(child).unwrap().signal(), Some(SIGTERM));
        // Another process may have this ID now.
        assert_eq!(*recipient.pid(), None);
        assert!(!recipient.send(SIGTERM));
    }
}
