//! Explicit scopes, for work on threads that do not inherit a scope, and for sections of a test.

use std::future::Future;
use std::ops::Deref;
use std::panic::{Location, panic_any, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::body::End;
use super::naming::subject_at;
use super::outcome::{self, Checked, Outcome};
use super::process::exit_summary;
use super::run::Run;
use super::scopes::open::{Token, current};
use super::session::{Session, refuse};
use super::settle_with::settle_after;
use super::{assertion, turn};
use crate::config::CheckSettings;
use crate::ledger::ScopeId;
use crate::options::Options;
use crate::report::check_report::{Finding, Report};
use crate::report::{Sink, headline};

/// The owner of GPU work: a checked test, or a section of one.
///
/// Threads inherit the scope of the thread that starts them. Work that runs on an existing thread,
/// such as a task of a runtime or a job of a pool that outlives the test, must take its scope
/// along. The methods are named as in the `tracing` crate:
///
/// ```
/// use gpu_leak_check::Scope;
///
/// let scope = Scope::current();
/// // on another thread:
/// scope.in_scope(|| { /* allocations made here belong to the test */ });
/// ```
///
/// An allocation made in a scope that has ended, or in no scope, has no known owner. If other
/// tests could be running, the allocation is counted in the run's summary and does not make a test
/// fail. Otherwise, it is a finding of the check that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    id: ScopeId,
}

impl Scope {
    /// Returns the current scope of this thread.
    #[must_use]
    pub fn current() -> Self {
        Self {
            id: current().unwrap_or(ScopeId::NONE),
        }
    }

    /// Returns the empty scope. Allocations made in it have no known owner.
    #[must_use]
    pub const fn none() -> Self {
        Self { id: ScopeId::NONE }
    }

    /// Whether this is the empty scope.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.id == ScopeId::NONE
    }

    /// Makes this the current scope of the thread until the guard is dropped.
    ///
    /// Do not hold the guard across an `.await`, because the thread continues with other tasks
    /// there. Use [`Instrument::instrument`] instead.
    #[must_use = "if the guard is not kept, the thread leaves the scope immediately"]
    pub fn enter(&self) -> Entered {
        Entered {
            _token: Token::set(self.id),
        }
    }

    /// Runs `work` in this scope.
    pub fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = self.enter();
        work()
    }

    /// Opens a child of this thread's current scope, which lasts until
    /// [`finish`](OpenScope::finish). It owns only the work that enters it.
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
    /// Panics if the run's settings are invalid, or if a `#[warmup]` function failed.
    #[track_caller]
    pub fn open(name: impl Into<String>) -> OpenScope {
        let subject = subject_at(&name.into(), Location::caller());
        let mut settings = CheckSettings::of(&subject.test, None, &Options::DEFAULT, &[])
            .unwrap_or_else(|why| refuse(&subject, why));
        // A scope has no body that could run again.
        (settings.test.judged.confirm, settings.test.judged.rounds) = (false, 1);
        let mut session = Session::new(subject, settings, turn::none()).unfiled();
        session.listen();
        let run = session.begin_run();
        OpenScope {
            scope: Self { id: run.scope() },
            run,
            session,
        }
    }
}

/// A guard that keeps a scope current on its thread (see [`Scope::enter`]).
#[derive(Debug)]
pub struct Entered {
    _token: Token,
}

/// An explicit scope that is still open. If it is dropped without [`finish`](Self::finish), the
/// parent scope takes over its resources; without a parent, the scope is reported as `unfinished`.
#[derive(Debug)]
pub struct OpenScope {
    scope: Scope,
    run: Run,
    session: Session,
}

impl OpenScope {
    /// Ends the scope and reports its leaks.
    ///
    /// ```
    /// use gpu_leak_check::Scope;
    ///
    /// let step = Scope::open("step");
    /// step.in_scope(|| { /* … */ });
    /// for finding in &step.finish().findings {
    ///     println!("{finding}");
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if a function that was registered with [`settle_with`](crate::settle_with) panics.
    #[must_use = "the report does not fail the test by itself: see `assert_clean`"]
    pub fn finish(self) -> Report {
        let mut session = self.session;
        let end = settle_after(self.scope.id, End::Passed);
        session.finish_run(self.run, end);
        let Checked {
            end, mut report, ..
        } = session.finish();
        if let End::Panicked(payload) = end {
            resume_unwind(payload);
        }
        // The caller decides the outcome, with `assert_clean`. Only one outcome is already certain:
        // `Fail`, if nothing could be seen and the policy fails a check for that reason.
        let is_blind = report.status.is_unmeasured();
        report.outcome = report
            .outcome
            .filter(|outcome| is_blind && *outcome == Outcome::Fail);
        report
    }
}

impl Deref for OpenScope {
    type Target = Scope;

    fn deref(&self) -> &Scope {
        &self.scope
    }
}

impl Report {
    /// Fails the test if something was left. If the scope could not be measured, this fails
    /// whenever a check would fail, for example under `GPU_LEAK_CHECK=require`. In all other cases,
    /// [`Report::status`] shows that the scope could not be measured.
    ///
    /// # Panics
    ///
    /// Panics with the whole report if it has a [failing](Finding::is_failure) finding, or if the
    /// scope could not be measured although the run's policy requires that.
    #[track_caller]
    pub fn assert_clean(&self) {
        let fails_unseen = self.status.is_unmeasured() && self.outcome == Some(Outcome::Fail);
        if !fails_unseen && !self.findings.iter().any(Finding::is_failure) {
            return;
        }
        let message = format!("{}\n\n{}", headline(self), outcome::rendered(self));
        if assertion::fails(self, &message, false).is_none() {
            // No check adopts this verdict, so the report is written on its own.
            let report = Self {
                outcome: Some(Outcome::Fail),
                ..self.clone()
            };
            Sink::global().finished(&report);
            exit_summary::change(|summary| summary.add(&report));
        }
        // `panic!` would copy the text, and the panic would no longer be recognised, because that
        // depends on the address of the text.
        panic_any(message);
    }
}

/// Attaches a scope to a future, no matter which thread polls it.
pub trait Instrument: Future + Sized {
    /// Runs every poll of this future, and its drop, in `scope`.
    ///
    /// ```
    /// use gpu_leak_check::{Instrument, Scope};
    ///
    /// async fn step() {}
    /// # let spawn = |future| drop(Box::pin(future));
    /// // On a runtime that existed before the test:
    /// spawn(step().instrument(Scope::current()));
    /// ```
    fn instrument(self, scope: Scope) -> Instrumented<Self> {
        Instrumented {
            scope,
            future: Some(Box::pin(self)),
        }
    }

    /// Runs every poll of this future, and its drop, in this thread's current scope.
    fn in_current_scope(self) -> Instrumented<Self> {
        self.instrument(Scope::current())
    }
}

impl<F: Future> Instrument for F {}

/// A future that runs in a scope.
#[derive(Debug)]
pub struct Instrumented<F> {
    scope: Scope,
    /// The future. It is boxed, because pinning it in place would need `unsafe`. `None` only during
    /// drop.
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
