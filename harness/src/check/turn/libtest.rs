//! Parses libtest's command line as far as checks need it.

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

#[cfg(test)]
mod tests {
    use super::Arguments;

    #[test]
    fn an_argument_that_is_no_option_and_no_value_is_a_filter() {
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
}
