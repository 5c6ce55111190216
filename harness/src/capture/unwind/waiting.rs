//! The backtrace of another thread that waits in a system call, as far as its frames can be
//! determined.

/// The known part of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// The stack slots with return addresses and these addresses, innermost first.
    pub(crate) returns: Vec<(u64, u64)>,
    /// Whether they lead to the thread's first function.
    pub(crate) whole: bool,
}

/// A waiting thread, as the kernel describes it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_env = "gnu",
        target_arch = "x86_64",
        not(miri)
    )),
    expect(dead_code, reason = "nothing is walked there")
)]
pub(crate) struct Waiting {
    /// The address to which its system call returns.
    pub(crate) instruction: u64,
    pub(crate) stack_pointer: u64,
    /// The end of its stack.
    pub(crate) end: u64,
}

/// Walks its stack; `word` reads words of memory. Supported only on x86-64, where a call stores its
/// return address on the stack; nothing is known elsewhere.
pub(crate) fn walk_waiting(thread: Waiting, word: impl FnMut(u64) -> Option<u64>) -> Walked {
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
        Walked::default()
    }
}
