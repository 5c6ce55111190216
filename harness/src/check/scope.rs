//! Scopes by hand, for work on threads that inherit none, and for stretches inside a test.

use std::future::Future;
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::body::End;
use super::run::Run;
use super::scopes::open::current;
use super::scopes::token::Token;
use super::session::{Session, subject_at};
use crate::config::Policy;
use crate::ledger::ScopeId;
use crate::options::Options;
use crate::report::model::Report;

/// What GPU work belongs to: a checked test, or a stretch of it.
///
/// Threads inherit the scope of the thread that starts them. Where work reaches a thread that was
/// there before, the task of a runtime or the job of a pool that outlives the test, it takes its
/// scope along by hand, in the words of the `tracing` crate:
///
/// ```
/// use gpu_leak_check::Scope;
///
/// let scope = Scope::current();
/// // on another thread:
/// scope.in_scope(|| { /* what this takes is the test's */ });
/// ```
///
/// What is taken in a scope that has ended, or in none, belongs to nobody: it is counted in the
/// run's summary and fails nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    id: ScopeId,
}

impl Scope {
    /// The scope that this thread works for.
    #[must_use]
    pub fn current() -> Self {
        Self {
            id: current().unwrap_or(ScopeId::NONE),
        }
    }

    /// No scope: what is taken in it belongs to no test.
    #[must_use]
    pub const fn none() -> Self {
        Self { id: ScopeId::NONE }
    }

    /// Whether this is no scope.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.id == ScopeId::NONE
    }

    /// Has this thread work for the scope, until the guard is dropped.
    ///
    /// Not across an `.await`, where the thread goes on with other tasks: use
    /// [`Instrument::instrument`] there.
    #[must_use = "the thread leaves the scope with the guard"]
    pub fn enter(&self) -> Entered {
        Entered {
            _token: Token::set(self.id),
        }
    }

    /// Runs `work` for the scope.
    pub fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// Opens a stretch inside the scope of this thread, from now on until
    /// [`finish`](OpenScope::finish). Work for it is what enters it.
    ///
    /// ```
    /// use gpu_leak_check::Scope;
    ///
    /// let epoch = Scope::open("epoch 1");
    /// epoch.in_scope(|| { /* train */ });
    /// epoch.finish().assert_clean();
    /// ```
    ///
    /// # Panics
    ///
    /// When the run's settings are wrong.
    #[track_caller]
    pub fn open(name: impl Into<String>) -> OpenScope {
        let name = name.into();
        let policy = match Policy::of(&name, None, &Options::DEFAULT) {
            Ok(policy) => policy,
            Err(why) => panic!("gpu-leak-check: {why}"),
        };
        OpenScope::begin(&name, policy, Location::caller())
    }
}

/// While it lives, its thread works for a scope.
#[derive(Debug)]
pub struct Entered {
    _token: Token,
}

/// A scope by hand that has begun. Dropped without [`finish`](Self::finish) it leaves what it holds
/// to the scope around it.
#[derive(Debug)]
pub struct OpenScope {
    scope: Scope,
    run: Run,
    session: Session<'static>,
}

impl OpenScope {
    pub(crate) fn begin(name: &str, policy: Policy, at: &'static Location<'static>) -> Self {
        // Nothing runs a second time: there is no body to run.
        let mut policy = policy;
        (policy.facts.confirm, policy.facts.rounds) = (false, 1);
        let mut session = Session::new(subject_at(name, at), policy, Vec::new(), None).unfiled();
        session.listen();
        let run = session.begin_run();
        Self {
            scope: Scope { id: run.scope() },
            run,
            session,
        }
    }

    /// Ends it, and reports what it left.
    #[must_use = "the report fails nothing by itself: see `assert_clean`"]
    pub fn finish(self) -> Report {
        let mut session = self.session;
        session.finish_run(self.run, End::Passed);
        let mut report = session.conclude().report;
        // Nobody weighs it: who called does.
        report.outcome = None;
        report
    }
}

impl Deref for OpenScope {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}

/// Futures that take their scope along, whatever thread polls them.
pub trait Instrument: Future + Sized {
    /// Has every poll, and the drop, of this future work for `scope`.
    ///
    /// ```
    /// use gpu_leak_check::{Instrument, Scope};
    ///
    /// async fn step() {}
    /// # let spawn = |future| drop(Box::pin(future));
    /// // On a runtime that was there before the test:
    /// spawn(step().instrument(Scope::current()));
    /// ```
    fn instrument(self, scope: Scope) -> Instrumented<Self> {
        Instrumented {
            scope,
            future: Some(Box::pin(self)),
        }
    }

    /// As [`instrument`](Self::instrument), for the scope of this thread.
    fn in_current_scope(self) -> Instrumented<Self> {
        self.instrument(Scope::current())
    }
}

impl<F: Future> Instrument for F {}

/// A future that works for a scope.
#[derive(Debug)]
pub struct Instrumented<F> {
    scope: Scope,
    /// Boxed, for pinning it in place takes `unsafe`. None only while it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Instrumented<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let _entered = this.scope.enter();
        match &mut this.future {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Instrumented<F> {
    fn drop(&mut self) {
        let _entered = self.scope.enter();
        self.future = None;
    }
}
