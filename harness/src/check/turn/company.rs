//! Determines whether anything but the current check can be running in this process.

use std::sync::OnceLock;
use std::{env, thread};

use super::child;
use super::gate::Turn;
use super::libtest::Arguments;

static CONCURRENCY: OnceLock<Concurrency> = OnceLock::new();

/// How many tests a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    /// Only one.
    OneTest,
    /// Several, one after the other.
    OneAtATime,
    /// Perhaps several at once.
    Several,
}

/// Who else may be active in this process during a check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Company<'a> {
    /// `None` inside another check.
    turn: Option<&'a Turn<'a>>,
}

impl<'a> Company<'a> {
    /// For a check with this turn at the gate.
    pub(crate) fn of(turn: Option<&'a Turn<'a>>) -> Self {
        Self { turn }
    }

    /// Whether another check has been active meanwhile.
    pub(crate) fn met_a_check(self) -> bool {
        self.turn.is_some_and(Turn::met_another)
    }

    /// Returns how many checks wait for their turn.
    pub(crate) fn waiting(self) -> u64 {
        self.turn.map_or(0, Turn::waiting)
    }
}

/// Whether this process runs only one test.
pub(crate) fn is_isolated() -> bool {
    static NEXTESTS: OnceLock<bool> = OnceLock::new();
    child::word().is_some()
        || *NEXTESTS.get_or_init(|| {
            let arguments = Arguments::of(arguments());
            is_started_by_nextest(&arguments, &variable)
        })
}

/// Whether nextest started this process for one test. Its variables alone prove little, because
/// processes that the test starts inherit them.
fn is_started_by_nextest(
    arguments: &Arguments,
    variable: &impl Fn(&str) -> Option<String>,
) -> bool {
    let [test] = &arguments.filters[..] else {
        return false;
    };
    let named = variable("NEXTEST_TEST_NAME");
    variable("NEXTEST").is_some()
        && arguments.exact
        // Older versions do not provide the name.
        && named.is_none_or(|named| named == *test)
}

fn arguments() -> impl Iterator<Item = String> {
    // An argument that is not valid text is not an option of libtest.
    let arguments = env::args_os().skip(1);
    arguments.map(|argument| argument.to_string_lossy().into_owned())
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Records that this process is a program with one check, whatever its arguments mean.
pub(crate) fn is_one_program() {
    // Err: a check has already asked, and the answer stays.
    let _ = CONCURRENCY.set(Concurrency::OneTest);
}

/// Whether the runner runs one test at a time in this process.
pub(crate) fn one_test_at_a_time() -> bool {
    concurrency() != Concurrency::Several
}

/// Returns how many tests the runner runs in this process.
pub(crate) fn concurrency() -> Concurrency {
    *CONCURRENCY.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        decide(arguments(), variable, cores)
    })
}

/// Derives it from libtest's arguments and variables. nextest starts one process per test, whatever
/// the variable for threads says.
fn decide(
    arguments: impl Iterator<Item = String>,
    variable: impl Fn(&str) -> Option<String>,
    cores: usize,
) -> Concurrency {
    let arguments = Arguments::of(arguments);
    let said = arguments.threads;
    let is_one = arguments.exact && arguments.filters.len() == 1;
    if said.is_none() && is_started_by_nextest(&arguments, &variable) {
        return Concurrency::OneTest;
    }
    let by_variable = || variable("RUST_TEST_THREADS")?.parse().ok();
    match said.or_else(by_variable) {
        // A user who asks for several threads may also start some.
        Some(2_usize..) => Concurrency::Several,
        _ if is_one => Concurrency::OneTest,
        Some(_) => Concurrency::OneAtATime,
        None if cores == 1 => Concurrency::OneAtATime,
        None => Concurrency::Several,
    }
}

#[cfg(test)]
mod tests {
    use super::{Concurrency, decide};

    fn alone(arguments: &str, variables: &[(&str, &str)]) -> bool {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        decide(arguments.split_whitespace().map(str::to_owned), find, 8) != Concurrency::Several
    }

    #[test]
    fn one_thread_one_exact_test_or_nextest_is_alone() {
        assert!(alone("--test-threads=1", &[]));
        assert!(alone("--nocapture --test-threads 1", &[]));
        assert!(alone("", &[("RUST_TEST_THREADS", "1")]));
        assert!(alone("optim::adam --exact --nocapture", &[]));
        assert!(alone("optim::adam --exact", &[("NEXTEST", "1")]));
        let nextest = [("NEXTEST", "1"), ("RUST_TEST_THREADS", "8")];
        assert!(alone("--exact optim::adam --nocapture", &nextest));
        let named = [nextest[0], nextest[1], ("NEXTEST_TEST_NAME", "optim::adam")];
        assert!(alone("--exact optim::adam --nocapture", &named));
    }

    #[test]
    fn what_a_test_under_nextest_starts_is_not_nextest_s() {
        let inherited = [
            ("NEXTEST", "1"),
            ("NEXTEST_TEST_NAME", "runs_the_suite"),
            ("RUST_TEST_THREADS", "8"),
        ];
        assert!(!alone("", &inherited));
        assert!(!alone("optim::adam", &inherited));
        assert!(!alone("--exact optim::adam", &inherited));
        assert!(!alone("--exact one two", &inherited[..1]));
        assert!(!alone(
            "--test-threads=8 --exact runs_the_suite",
            &inherited
        ));
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
