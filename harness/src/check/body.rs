//! Runs a body, on its own thread or on the current one, and returns how it ended.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::task::Poll;
use std::thread;

use gpu_leak_interpose as threads;

use super::scopes::open::Token;
use crate::capture::thread::begins_a_check;
use crate::case::ShouldPanic;
use crate::ledger::ScopeId;

/// How a body ended: by returning or by panicking.
#[derive(Debug)]
pub(crate) enum End {
    /// The body returned success.
    Passed,
    /// The body returned an error, which has been printed.
    Failed(ExitCode),
    /// The body panicked, and the panic hook has printed the message.
    Panicked(Box<dyn Any + Send>),
}

impl End {
    /// Whether the test behaved as `should_panic` expects.
    pub(crate) fn as_expected(&self, should_panic: Option<ShouldPanic>) -> bool {
        match (self, should_panic) {
            (Self::Passed, None) => true,
            (Self::Panicked(payload), Some(wanted)) => mismatch(&**payload, wanted).is_none(),
            _ => false,
        }
    }
}

/// Runs a body on this thread in this scope, and returns how it ended.
pub(crate) fn run_here<T>(
    scope: ScopeId,
    body: impl FnOnce() -> T,
    returned: impl FnOnce(T),
) -> End {
    let _token = Token::set(scope);
    caught(|| returned(body()))
}

/// Runs an async body as [`run_here`] runs a body. The scope is current whenever the body is
/// polled.
pub(crate) async fn run_here_async<T>(
    scope: ScopeId,
    body: &mut impl AsyncFnMut() -> T,
    returned: impl FnOnce(T),
) -> End {
    let mut body = Some(Box::pin(async { returned(body().await) }));
    poll_fn(|context| {
        let _token = Token::set(scope);
        let mut is_over = false;
        let end = caught(|| {
            if let Some(waiting) = &mut body {
                is_over = waiting.as_mut().poll(context).is_ready();
            }
        });
        if is_over || !matches!(end, End::Passed) {
            // The body's captured values are dropped while the scope is still current on this
            // thread.
            body = None;
            return Poll::Ready(end);
        }
        Poll::Pending
    })
    .await
}

/// The usual stack size of a program's initial thread. Other threads have less.
const MAIN_STACK: usize = 8 << 20;

/// Runs `body` in `scope` on a thread called `name`. Returns only after joining that thread, so
/// that the destructors of its thread-locals have run.
///
/// # Panics
///
/// Panics if the system cannot create a thread.
pub(crate) fn run(name: &str, scope: ScopeId, body: fn() -> ExitCode) -> End {
    run_on(thread::Builder::new(), name, scope, body)
}

/// Runs a program's `main` as [`run`] runs a body. The thread has the name and the usual stack size
/// of an initial thread.
///
/// # Panics
///
/// Panics if the system cannot create a thread.
pub(crate) fn run_main(scope: ScopeId, body: fn() -> ExitCode) -> End {
    run_on(
        thread::Builder::new().stack_size(MAIN_STACK),
        "main",
        scope,
        body,
    )
}

fn run_on(thread: thread::Builder, name: &str, scope: ScopeId, body: fn() -> ExitCode) -> End {
    // The thread inherits the scope from the moment it starts, so that it is never in another scope
    // or in none.
    let token = Token::set(scope);
    let thread = thread.name(name.to_owned()).spawn(move || {
        threads::set_token(u64::from(scope.0));
        if scope == ScopeId::NONE {
            // A test that its attribute exempts must not be listed as a test without the attribute.
            begins_a_check();
        }
        body()
    });
    drop(token);
    let thread = thread.unwrap_or_else(|error| {
        panic!("gpu-leak-check: cannot start a thread for the body of {name}: {error}")
    });
    match thread.join() {
        Ok(code) if code == ExitCode::SUCCESS => End::Passed,
        Ok(code) => End::Failed(code),
        Err(payload) => End::Panicked(payload),
    }
}

/// Runs `body` on this thread and catches its panic.
pub(crate) fn caught(body: impl FnOnce()) -> End {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => End::Passed,
        Err(payload) => End::Panicked(payload),
    }
}

/// Returns why this panic is not the expected one, in the words of libtest.
pub(crate) fn mismatch(payload: &(dyn Any + Send), wanted: ShouldPanic) -> Option<String> {
    let expected = wanted.expected?;
    match message(payload) {
        Some(message) if message.contains(expected) => None,
        Some(message) => Some(format!(
            "panic did not contain expected string\n      panic message: {message:?}\n \
             expected substring: {expected:?}"
        )),
        None => Some(format!(
            "expected panic with string value,\n found non-string value: `{:?}`\n     \
             expected substring: {expected:?}",
            payload.type_id()
        )),
    }
}

/// Returns the message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::{End, ScopeId, ShouldPanic, run, threads};

    #[test]
    fn a_body_runs_on_its_own_named_thread_with_its_scope() {
        fn body() -> ExitCode {
            assert_eq!(std::thread::current().name(), Some("named::test"));
            assert_eq!(threads::token(), 9);
            ExitCode::SUCCESS
        }
        assert!(matches!(run("named::test", ScopeId(9), body), End::Passed));
        assert_eq!(threads::token(), 0, "the caller's own scope is untouched");
    }

    #[test]
    fn an_error_and_a_panic_are_distinguished() {
        assert!(matches!(
            run("failed", ScopeId(9), || ExitCode::FAILURE),
            End::Failed(_)
        ));
        let end = run("panicked", ScopeId(9), || {
            panic!("index {} is out of range", 3)
        });
        let wanted = |expected| {
            Some(ShouldPanic {
                expected,
                by_libtest: false,
            })
        };
        assert!(end.as_expected(wanted(None)));
        assert!(end.as_expected(wanted(Some("out of range"))));
        assert!(!end.as_expected(wanted(Some("out of memory"))));
        assert!(!end.as_expected(None));
    }
}
