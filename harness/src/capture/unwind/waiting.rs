//! The backtrace of another thread that waits in a system call, as far as its frames can be
//! determined.

use gpu_leak_holders::{ReturnAddresses, WaitingThread};

/// Walks the stack of `thread`, reading its memory through `word`. The walk relies on x86-64, where
/// a call stores its return address on the stack, and is supported only on Linux with glibc. On
/// other platforms, it finds nothing.
pub(crate) fn walk_waiting(
    thread: WaitingThread,
    word: &mut dyn FnMut(u64) -> Option<u64>,
) -> ReturnAddresses {
    #[cfg(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "x86_64",
        not(miri)
    ))]
    return super::framehop::waiting::walk(thread, word);
    #[cfg(not(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "x86_64",
        not(miri)
    )))]
    {
        let (_, _) = (thread, word);
        ReturnAddresses::default()
    }
}
