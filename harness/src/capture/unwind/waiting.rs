//! The stack of another thread, which waits in a call of the system: the frames that are known.

/// What is known of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// Where it has addresses that its functions return to, and these, innermost first.
    pub(crate) returns: Vec<(u64, u64)>,
    /// Whether they lead to the thread's first function.
    pub(crate) whole: bool,
}

/// A thread that waits, as the kernel tells of it.
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
    /// Where its call of the system returns to.
    pub(crate) instruction: u64,
    pub(crate) stack_pointer: u64,
    /// Where its stack ends.
    pub(crate) end: u64,
}

/// Walks it; `word` reads words of memory. Nowhere else than on x86-64, where a call leaves the address
/// that it returns to on the stack, is anything known.
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
