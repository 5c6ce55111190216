//! Sets a thread's scope temporarily. How threads inherit it is in `interpose/src/threads.rs`.

use std::marker::PhantomData;

use gpu_leak_interpose as threads;

use crate::ledger::ScopeId;

/// A guard that sets this thread's scope and restores the previous one, even after a panic.
#[derive(Debug)]
pub(crate) struct Token {
    outer: u64,
    /// The token belongs to this thread. If it were dropped on another thread, it would change the
    /// scope of that thread.
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Token {
    #[must_use = "if the guard is not kept, the thread leaves the scope immediately"]
    pub(crate) fn set(scope: ScopeId) -> Self {
        Self {
            outer: threads::set_token(u64::from(scope.0)),
            _stays_on_its_thread: PhantomData,
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        threads::set_token(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::{ScopeId, Token, threads};

    #[test]
    fn a_panic_gives_the_thread_back_to_the_scope_before() {
        let outer = Token::set(ScopeId(u32::MAX - 1));
        let end = catch_unwind(|| {
            let _inner = Token::set(ScopeId(u32::MAX));
            panic!("on purpose");
        });
        assert!(end.is_err());
        assert_eq!(threads::token(), u64::from(u32::MAX - 1));
        drop(outer);
        assert_eq!(threads::token(), 0);
    }
}
