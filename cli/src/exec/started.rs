//! A program that was started: who hands signals on to it, and who waits for its end.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1};

/// Its number, for as long as no other program can have it: until it is waited for.
#[derive(Clone, Debug)]
pub(super) struct Started(Arc<Mutex<Option<Pid>>>);

impl Started {
    pub(super) fn new(child: &Child) -> Self {
        let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self(Arc::new(Mutex::new(number)))
    }

    /// Sends it this signal, and says whether it was there to be sent one.
    pub(super) fn hand_on(&self, signal: i32) -> bool {
        let signal = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            SIGUSR1 => Signal::USR1,
            _ => Signal::USR2,
        };
        let number = self.number();
        number.is_some_and(|number| kill_process(number, signal).is_ok())
    }

    /// Waits for its end. From then on its number may be another program's.
    pub(super) fn wait(&self, mut child: Child) -> io::Result<ExitStatus> {
        let number = *self.number();
        if let Some(number) = number {
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Its number is its own until it is asked how it ended, which `NOWAIT` leaves for later.
            // Err: nobody can ask; then `wait` says why.
            let _: Result<_, Errno> = retry_on_intr(|| waitid(WaitId::Pid(number), end));
        }
        *self.number() = None;
        child.wait()
    }

    fn number(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::{SIGTERM, Started};

    #[test]
    fn a_program_is_sent_signals_until_it_was_waited_for_and_nobody_afterwards() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let started = Started::new(&child);
        assert!(started.hand_on(SIGTERM));
        assert_eq!(started.wait(child).unwrap().signal(), Some(SIGTERM));
        // Who has its number now?
        assert_eq!(*started.number(), None);
        assert!(!started.hand_on(SIGTERM));
    }
}
