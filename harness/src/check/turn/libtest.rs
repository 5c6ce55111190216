//! Parses libtest's command line as far as checks need it.

use crate::case::Case;

/// libtest's arguments.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// `--test-threads`; `None` if it is not given or not a number.
    pub(crate) threads: Option<usize>,
    /// `--exact`
    pub(crate) exact: bool,
    /// A part of a test's name, or all of it.
    pub(crate) filters: Vec<String>,
    skipped: Vec<String>,
    ignored: Ignored,
    /// Whether no tests run: `--list`, `--help`.
    runs_none: bool,
}

/// Which of the ignored and other tests run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ignored {
    #[default]
    Skipped,
    Only,
    Included,
}

impl Arguments {
    /// Parses a command line without the program's name. `threads` is the value of
    /// `RUST_TEST_THREADS`.
    pub(crate) fn of(arguments: impl Iterator<Item = String>, threads: Option<String>) -> Self {
        let mut threads = threads;
        let mut parsed = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.split_once('=') {
                _ if argument == "--exact" => parsed.exact = true,
                _ if argument == "--ignored" => parsed.ignored = Ignored::Only,
                _ if argument == "--include-ignored" => parsed.ignored = Ignored::Included,
                _ if ["--list", "--help", "-h"].contains(&&*argument) => parsed.runs_none = true,
                _ if argument == "--test-threads" => threads = arguments.next(),
                _ if argument == "--skip" => parsed.skipped.extend(arguments.next()),
                Some(("--test-threads", number)) => threads = Some(number.to_owned()),
                Some(("--skip", name)) => parsed.skipped.push(name.to_owned()),
                _ if TAKES_A_VALUE.contains(&&*argument) => drop(arguments.next()),
                _ if argument.starts_with('-') => {}
                _ => parsed.filters.push(argument),
            }
        }
        parsed.threads = threads.and_then(|number| number.parse().ok());
        parsed
    }

    /// Whether this test is selected.
    pub(crate) fn select(&self, case: &Case) -> bool {
        let named = |name: &String| match self.exact {
            true => case.name() == name,
            false => case.name().contains(&**name),
        };
        let by_ignored = match self.ignored {
            Ignored::Skipped => !case.ignored,
            Ignored::Only => case.ignored,
            Ignored::Included => true,
        };
        !self.runs_none
            && by_ignored
            && (self.filters.is_empty() || self.filters.iter().any(named))
            && !self.skipped.iter().any(named)
    }
}

/// libtest's other options whose value is a separate argument.
const TAKES_A_VALUE: [&str; 5] = ["--logfile", "--color", "--format", "--shuffle-seed", "-Z"];

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::Arguments;
    use crate::case::Case;
    use crate::origin;

    fn selects(arguments: &str, ignored: bool) -> bool {
        let body = || ExitCode::SUCCESS;
        let case = Case {
            ignored,
            ..Case::new("train::optim::adam", origin!(), body)
        };
        let arguments = arguments.split_whitespace().map(str::to_owned);
        Arguments::of(arguments, None).select(&case)
    }

    #[test]
    fn tests_are_selected_as_libtest_does() {
        for arguments in [
            "",
            "adam",
            "sgd optim",
            "--exact optim::adam",
            "--skip sgd -Z x",
        ] {
            assert!(selects(arguments, false), "{arguments}");
        }
        for arguments in [
            "sgd",
            "--exact adam",
            "--skip adam",
            "--skip=optim",
            "--list",
            "--help",
            "--ignored",
            "--logfile adam sgd",
        ] {
            assert!(!selects(arguments, false), "{arguments}");
        }
        assert!(selects("--ignored", true) && selects("--include-ignored", true));
        assert!(!selects("", true) && selects("--include-ignored", false));
    }
}
