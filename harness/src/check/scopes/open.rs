//! Open scopes, and the scope in which a thread works.

use std::marker::PhantomData;
use std::sync::OnceLock;

use gpu_leak_interpose as threads;

use super::tree;
use crate::ledger::{Amount, ScopeId};

/// The scope of a process that is judged as a whole.
static PROCESS: OnceLock<Open> = OnceLock::new();

/// Opens the scope of this process, which is judged as a whole.
pub(crate) fn open_process() {
    PROCESS.get_or_init(|| Open::new(false));
}

/// Returns the scope of this process, if it is judged as a whole. Threads do not work in this
/// scope, so that checks inside it are not nested.
pub(crate) fn process() -> Option<ScopeId> {
    PROCESS.get().map(Open::scope)
}

/// Whether this thread works for a check in progress. A thread of a pool may still have the token
/// of a check that has ended.
pub(crate) fn is_inside_a_check() -> bool {
    current().is_some()
}

/// Returns the open scope in which this thread works.
pub(crate) fn current() -> Option<ScopeId> {
    let scope = u32::try_from(threads::token()).ok()?;
    match scope {
        0 => None,
        scope => tree::open_scope(ScopeId(scope)),
    }
}

/// A scope that is open until it is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    scope: ScopeId,
    is_open: bool,
}

impl Open {
    /// Opens a scope inside this thread's scope, if there is one. `confirms` says whether the scope
    /// is a run that only confirms the leaks of an earlier run.
    pub(crate) fn new(confirms: bool) -> Self {
        Self {
            scope: tree::open(current(), confirms),
            is_open: true,
        }
    }

    pub(crate) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// Closes the scope. Returns the amount of the records that existed before the scope and were
    /// freed in it.
    pub(crate) fn close(mut self) -> Amount {
        self.is_open = false;
        tree::close(self.scope)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_open {
            tree::close(self.scope);
            tree::forget(self.scope);
        }
    }
}

/// The token of threads that may work for any check, such as those that a warm-up or a probe
/// starts. No scope has this ID.
const OF_ANY_CHECK: u64 = 1 << 32;

/// Whether this thread may work for any check, because a warm-up or a probe has started it.
pub(crate) fn is_of_any_check() -> bool {
    threads::token() == OF_ANY_CHECK
}

/// A guard that sets this thread's scope and restores the previous one, even after a panic. The
/// code in `interpose/src/threads.rs` lets threads inherit a scope.
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
        Self::of(u64::from(scope.0))
    }

    /// Lets this thread, and the threads that it starts, work outside every scope.
    #[must_use = "if the guard is not kept, the thread returns to its scope immediately"]
    pub(crate) fn of_any_check() -> Self {
        Self::of(OF_ANY_CHECK)
    }

    fn of(token: u64) -> Self {
        Self {
            outer: threads::set_token(token),
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
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Open, ScopeId, Token, is_inside_a_check, threads};
    use crate::check::scopes::tree;

    #[test]
    fn the_token_of_a_finished_check_has_no_effect() {
        let open = Open::new(false);
        let outer = threads::set_token(u64::from(open.scope().0));
        let while_open = is_inside_a_check();
        open.close();
        let afterwards = is_inside_a_check();
        threads::set_token(outer);
        assert_eq!((while_open, afterwards), (true, false));
    }

    #[test]
    fn a_panic_inside_leaves_no_scope_open() {
        let mut scope = None;
        let end = catch_unwind(AssertUnwindSafe(|| {
            let open = Open::new(false);
            scope = Some(open.scope());
            panic!("on purpose");
        }));
        assert!(end.is_err());
        assert_eq!(tree::open_scope(scope.unwrap()), None);
    }

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
