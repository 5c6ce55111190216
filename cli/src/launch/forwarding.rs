//! Forwards signals that the command receives to the program that it runs.

#![expect(unsafe_code, reason = "reads and changes how signals are handled")]

use std::io;
use std::mem::MaybeUninit;
use std::process::{Child, ExitStatus};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::exit::{ExitResult, Failure};

/// The signals that this process catches instead of being ended by them.
pub(super) struct Signals {
    caught: SignalsInfo<WithRawSiginfo>,
    /// Whether the program has ended. From then on, a signal that ends processes by default also
    /// ends this process.
    ended: Arc<AtomicBool>,
}

impl Signals {
    /// Catches SIGCHLD and the signals to forward, except those that this process ignores (for
    /// example under `nohup`). The program inherits the ignored signals.
    pub(super) fn catch() -> ExitResult<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let caught = || -> io::Result<_> {
            let mut caught = vec![SIGCHLD];
            for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] {
                if is_ignored(signal) {
                    continue;
                }
                // A request for a snapshot never ends this process.
                if !matches!(signal, SIGUSR1 | SIGUSR2) {
                    flag::register_conditional_default(signal, Arc::clone(&ended))?;
                }
                caught.push(signal);
            }
            SignalsInfo::new(caught)
        };
        match caught() {
            Ok(caught) => Ok(Self { caught, ended }),
            Err(why) => Err(Failure::usage(format!(
                "cannot install signal handlers: {why}"
            ))),
        }
    }

    /// Forwards signals to `child` until it has ended. Only this thread reaps the child, so its
    /// process ID cannot belong to another process when a signal is sent.
    pub(super) fn forward_to(mut self, mut child: Child) -> io::Result<ExitStatus> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        for info in self.caught.forever() {
            // On Linux, this code means that a process sent the signal. A terminal sends SIGINT and
            // SIGQUIT to the program as well.
            let is_sent = cfg!(target_os = "linux") && info.si_code <= 0;
            match info.si_signo {
                SIGCHLD => {
                    if let Some(status) = child.try_wait()? {
                        self.ended.store(true, Ordering::Relaxed);
                        return Ok(status);
                    }
                }
                SIGINT | SIGQUIT if !is_sent => {}
                signal => {
                    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
                        // The program may already have ended.
                        let _ = kill_process(pid, signal);
                    }
                }
            }
        }
        child.wait()
    }
}

/// Lets this process get the exit codes of its children even if it was started with SIGCHLD ignored
/// or blocked.
pub(crate) fn expect_children() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is used, and no handler is installed.
    unsafe {
        libc::signal(SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), SIGCHLD);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
    }
}

/// Whether this process ignores `signal`.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, the call only fills in `action`, for which zeros are valid.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
