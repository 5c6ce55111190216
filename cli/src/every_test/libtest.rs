//! libtest's arguments, dealt out: some for the list of tests, some for each test's own process.

use std::ffi::{OsStr, OsString};

/// Of libtest's arguments those for each test's own process: how what it writes is shown. The others
/// choose tests, which is done by then, or are about several at once.
pub(super) fn showing(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut chosen = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str().unwrap_or_default() {
            "--nocapture" | "--no-capture" | "--show-output" => chosen.push(&**argument),
            "--color" | "-Z" => {
                chosen.push(argument);
                chosen.extend(rest.next().map(OsString::as_os_str));
            }
            "--skip" | "--test-threads" | "--format" | "--logfile" | "--shuffle-seed" => {
                rest.next();
            }
            word if word.starts_with("--color=") || word.starts_with("-Z") => {
                chosen.push(argument);
            }
            _ => {}
        }
    }
    chosen
}

/// What is asked for a list, whose format is ours.
pub(super) fn without_format(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str().unwrap_or_default() {
            "--format" => {
                rest.next();
            }
            word if word.starts_with("--format=") => {}
            _ => kept.push(&**argument),
        }
    }
    kept
}

pub(super) fn is_captured(words: &[OsString]) -> bool {
    !words
        .iter()
        .any(|word| word == "--nocapture" || word == "--no-capture")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{showing, without_format};

    #[test]
    fn what_shows_goes_to_each_test_and_what_chooses_goes_to_the_list() {
        let words = |words: &str| Vec::from_iter(words.split(' ').map(OsString::from));
        let given =
            words("filter --skip --nocapture --color always --format json --show-output -q");
        assert_eq!(showing(&given), ["--color", "always", "--show-output"]);
        let listed = without_format(&given);
        let expected = words("filter --skip --nocapture --color always --show-output -q");
        assert_eq!(listed, expected);
        assert_eq!(showing(&words("--no-capture")), ["--no-capture"]);
    }
}
