//! Scopes by hand, for work on threads that inherit none, and for stretches inside a test.

use std::future::Future;
use std::ops::Deref;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::blind;
use super::conclude::{Subject, conclude};
use super::conclude::{referrers, uncounted};
use super::measure::stretch::Stretch;
use super::poison;
use super::process::listen::{listen, record_from_here};
use super::recording::{self, Runs};
use super::scopes::members;
use super::scopes::open::current;
use super::scopes::token::Token;
use super::turn::company::Company;
use crate::config::{Mode, Policy};
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
        OpenScope::begin(name, policy, Location::caller())
    }
}

/// While it lives, its thread works for a scope.
#[derive(Debug)]
pub struct Entered {
    _token: Token,
}

/// A stretch that has begun. Dropped without [`finish`](Self::finish) it leaves what it holds to
/// the scope around it.
#[derive(Debug)]
pub struct OpenScope {
    scope: Scope,
    stretch: Stretch<'static>,
    policy: Policy,
    name: String,
    at: &'static Location<'static>,
}

impl OpenScope {
    pub(crate) fn begin(name: String, policy: Policy, at: &'static Location<'static>) -> Self {
        if policy.mode != Mode::Off {
            record_from_here(None, at.file());
        }
        listen(None, at.file());
        let stretch = Stretch::begin(&name, Company::of(None), policy.budget);
        Self {
            scope: Scope {
                id: stretch.scope(),
            },
            stretch,
            policy,
            name,
            at,
        }
    }

    /// Ends it, and reports what it left.
    #[must_use = "the report fails nothing by itself: see `assert_clean`"]
    pub fn finish(self) -> Report {
        let company = Company::of(None);
        let ended = self.stretch.end_body();
        let left = self.stretch.settle(&self.policy, company);
        let mut measured = self.stretch.finish(true, ended, left);
        if measured.poisoned_inside.is_some() {
            let (file, line) = (self.at.file(), self.at.line());
            let name = format!("{} ({file}:{line})", self.name);
            poison::blame(&name, company.met_a_check());
        }
        let mut blindness = blind::blindness(measured.saw_events);
        if self.policy.mode == Mode::Off {
            measured.held.clear();
            measured.over.clear();
            blindness = Some(blind::switched_off());
        }
        let subject = Subject::at(&self.name, self.at);
        members::forget(measured.scope);
        let runs = Runs::Once(measured.scope, None);
        let mut report = recording::concluded(runs, blindness.as_ref(), None, |names| {
            conclude(subject, &measured, None, blindness.as_ref(), names)
        });
        let scopes = [measured.scope];
        referrers::tell(&mut report, &measured, &scopes, self.policy.held_by);
        uncounted::tell(&mut report);
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
