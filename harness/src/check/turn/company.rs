//! Whether anything but the check at hand can be running in this process.

use std::sync::OnceLock;
use std::{env, thread};

use super::gate::Turn;
use super::libtest::Arguments;

static ONE_AT_A_TIME: OnceLock<bool> = OnceLock::new();

/// Who else may be at work in this process during a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Company<'a> {
    /// None inside another check.
    turn: Option<&'a Turn<'a>>,
}

impl<'a> Company<'a> {
    /// That of a check with this turn at the gate.
    pub(crate) fn of(turn: Option<&'a Turn<'a>>) -> Self {
        Self { turn }
    }

    /// Whether another check has been at work meanwhile.
    pub(crate) fn met_a_check(self) -> bool {
        self.turn.is_some_and(Turn::met_another)
    }

    /// Whether work on a thread outside every scope can only be the work of this check.
    pub(crate) fn is_none(self) -> bool {
        one_test_at_a_time() && !self.met_a_check()
    }
}

/// Set, with a word of its parent's, in a process that runs one test for [`isolate`]. Not one of the
/// variables that users set.
///
/// [`isolate`]: crate::check::isolate
pub(crate) const ISOLATED: &str = "__GPU_LEAK_CHECK_ISOLATED";

/// Whether this process runs nothing but one test.
pub(crate) fn is_isolated() -> bool {
    env::var_os(ISOLATED).is_some() || env::var_os("NEXTEST").is_some()
}

/// Notes that this process is a program with one check, whatever its arguments mean.
pub(crate) fn is_one_program() {
    // Err: a check asked before, and an answer stays.
    let _ = ONE_AT_A_TIME.set(true);
}

/// Whether the runner runs one test at a time in this process.
pub(crate) fn one_test_at_a_time() -> bool {
    *ONE_AT_A_TIME.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        decide(env::args().skip(1), |name| env::var(name).ok(), cores)
    })
}

/// What libtest makes of its arguments and variables; nextest starts a process a test.
fn decide(
    arguments: impl Iterator<Item = String>,
    variable: impl Fn(&str) -> Option<String>,
    cores: usize,
) -> bool {
    if variable("NEXTEST").is_some() {
        return true;
    }
    let arguments = Arguments::of(arguments, variable("RUST_TEST_THREADS"));
    match arguments.threads {
        Some(threads) => threads == 1,
        None => cores == 1 || (arguments.exact && arguments.filters.len() == 1),
    }
}

#[cfg(test)]
mod tests {
    use super::decide;

    fn alone(arguments: &str, variables: &[(&str, &str)]) -> bool {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        decide(arguments.split_whitespace().map(str::to_owned), find, 8)
    }

    #[test]
    fn one_thread_one_exact_test_or_nextest_is_alone() {
        assert!(alone("--test-threads=1", &[]));
        assert!(alone("--nocapture --test-threads 1", &[]));
        assert!(alone("", &[("RUST_TEST_THREADS", "1")]));
        assert!(alone("optim::adam --exact --nocapture", &[]));
        assert!(alone("optim::adam --exact", &[("NEXTEST", "1")]));
    }

    #[test]
    fn anything_else_may_have_company() {
        assert!(!alone("", &[]));
        assert!(!alone("optim::adam", &[]));
        assert!(!alone("one two --exact", &[]));
        assert!(!alone("--test-threads=8 one --exact", &[]));
        assert!(!alone("--skip one --exact", &[]));
        assert!(!alone("--test-threads=4", &[("RUST_TEST_THREADS", "1")]));
    }
}
