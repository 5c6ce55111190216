//! What a check needs to know about libtest: its command line, and whether it runs a case twice.

use std::collections::BTreeSet;

use crate::call_site::site_of;
use crate::capture;
use crate::case::Case;
use crate::ledger::Kind;
use crate::report::check_report::{Frame, Owner};
use crate::report::symbols;
use crate::sync::{Mutex, locked};

/// libtest's arguments.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// `--test-threads`; `None` if it is not given or not a number.
    pub(crate) threads: Option<usize>,
    /// `--exact`
    pub(crate) exact: bool,
    /// The filters: a test's name must contain one of these texts or, with `--exact`, be equal to
    /// one.
    pub(crate) filters: Vec<String>,
}

impl Arguments {
    /// Parses a command line without the program's name.
    pub(crate) fn of(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut parsed = Self::default();
        let mut threads = None;
        while let Some(argument) = arguments.next() {
            match argument.split_once('=') {
                _ if argument == "--exact" => parsed.exact = true,
                _ if argument == "--test-threads" => threads = arguments.next(),
                Some(("--test-threads", number)) => threads = Some(number.to_owned()),
                _ if TAKES_A_VALUE.contains(&&*argument) => drop(arguments.next()),
                _ if argument.starts_with('-') => {}
                _ => parsed.filters.push(argument),
            }
        }
        parsed.threads = threads.and_then(|number| number.parse().ok());
        parsed
    }
}

/// libtest's other options whose value is a separate argument.
const TAKES_A_VALUE: [&str; 6] = [
    "--skip",
    "--logfile",
    "--color",
    "--format",
    "--shuffle-seed",
    "-Z",
];

/// The error message for a case that libtest enters a second time.
pub(crate) const REGISTERED_TWICE: &str = "this test is registered twice and would run twice: \
    put `#[gpu_leak_check]` above `#[test]`, or leave `#[test]` out (the attribute adds it)";

/// Whether libtest has entered this case before. Calls from the program's own code are not counted.
///
/// If `#[test]` is written above the attribute, the compiler has already processed it when the
/// attribute is expanded, so the attribute does not see it and adds another one. libtest's list
/// then contains the case twice.
pub(crate) fn is_second(case: &'static Case) -> bool {
    static ENTERED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    let mut entered = locked(&ENTERED);
    !entered.insert(std::ptr::from_ref(case).addr()) && is_called_by_libtest(case)
}

/// Whether libtest calls the test directly, with no other function of the program in between.
fn is_called_by_libtest(case: &Case) -> bool {
    let frames = symbols::frames(capture::stack(), &[]);
    let mut frames = site_of(frames, Kind::Linear).frames;
    frames.retain(|frame| frame.owner == Owner::User);
    let is_the_test = |frame: &Frame| {
        let function = frame.function.as_deref().unwrap_or_default();
        is_test_or_closure(case.path, function)
    };
    // If the closure through which libtest calls the test is inlined, line tables contain no path
    // for the closure, but they contain the line of the test's function.
    let is_beside_the_test = |closure: &Frame| {
        let place = |frame: &Frame| (frame.file.clone(), frame.line);
        let function = closure.function.as_deref().unwrap_or_default();
        function.starts_with('{')
            && frames
                .iter()
                .any(|frame| is_the_test(frame) && place(frame) == place(closure))
    };
    let is_own = |frame: &Frame| is_the_test(frame) || is_beside_the_test(frame);
    !frames.is_empty() && frames.iter().all(is_own)
}

/// Whether `function` is the test with this path, or a closure in that test. The name of an inlined
/// function does not contain its path.
fn is_test_or_closure(path: &str, function: &str) -> bool {
    let name = function.split("::{{closure}}").next().unwrap_or_default();
    !name.is_empty()
        && path
            .strip_suffix(name)
            .is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::{Arguments, is_test_or_closure};

    #[test]
    fn an_argument_that_is_neither_an_option_nor_a_value_is_a_filter() {
        for (arguments, filters) in [
            ("", &[][..]),
            ("adam", &["adam"]),
            ("sgd --exact optim", &["sgd", "optim"]),
            ("--skip sgd -Z x --list", &[]),
            ("--skip=optim --ignored --include-ignored", &[]),
            ("--logfile adam sgd --color always", &["sgd"]),
            ("--test-threads 4 adam --nocapture", &["adam"]),
        ] {
            let parsed = Arguments::of(arguments.split_whitespace().map(str::to_owned));
            assert_eq!(parsed.filters, filters, "{arguments}");
            assert_eq!(parsed.exact, arguments.contains("--exact"), "{arguments}");
        }
    }

    #[test]
    fn threads_are_counted_in_either_form() {
        for (arguments, threads) in [
            ("--test-threads 4", Some(4)),
            ("--test-threads=4", Some(4)),
            ("--test-threads many", None),
            ("adam", None),
        ] {
            let parsed = Arguments::of(arguments.split_whitespace().map(str::to_owned));
            assert_eq!(parsed.threads, threads, "{arguments}");
        }
    }

    #[test]
    fn the_test_itself_is_distinguished_from_a_test_that_calls_it() {
        let path = "train::optim::adam_frees";
        for own in [path, "adam_frees", "train::optim::adam_frees::{{closure}}"] {
            assert!(is_test_or_closure(path, own), "{own}");
        }
        for other in [
            "train::optim::calls_adam_frees",
            "frees",
            "core::ops::call_once",
            "",
        ] {
            assert!(!is_test_or_closure(path, other), "{other}");
        }
    }
}
