//! Fuzz targets for settings with arbitrary contents (see [`crate::__fuzz`]).

use std::ffi::OsString;

use super::CheckSettings;
use super::file::File;
use super::variables::Variables;
use crate::options::Options;

/// The input is a configuration file. It is either accepted, or rejected with a location inside the
/// file.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn config(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match File::of_text(&text, "f.toml") {
        Ok(file) => {
            for entry in &file.allow {
                let line = entry
                    .stands_in
                    .strip_prefix("f.toml:")
                    .and_then(|at| at.parse().ok());
                assert!(line.is_some_and(|line| is_line(&text, line)), "{entry:?}");
            }
            for test in ["", "train::step", "*"] {
                let _ = CheckSettings::combine(
                    &Variables::default(),
                    &Options::DEFAULT,
                    &[],
                    Some(&file),
                    test,
                );
            }
        }
        Err(message) => {
            let mut parts = message.splitn(4, ':');
            assert_eq!(parts.next(), Some("f.toml"), "{message}");
            let line = parts.next().and_then(|line| line.parse().ok());
            assert!(line.is_some_and(|line| is_line(&text, line)), "{message}");
            let column = parts.next().and_then(|column| column.parse::<usize>().ok());
            assert!(column.is_some_and(|column| column > 0), "{message}");
            assert!(
                parts.next().is_some_and(|what| !what.trim().is_empty()),
                "{message}"
            );
        }
    }
}

/// Whether `text` has a line with this number, counted from 1. The last line may be empty.
fn is_line(text: &str, line: usize) -> bool {
    (1..=text.matches('\n').count() + 1).contains(&line)
}

/// The input is an environment, with one `NAME=value` per line. It is either accepted, or rejected
/// with the name of a variable.
///
/// # Panics
///
/// Panics if this is not the case.
pub fn variables(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let pairs = || text.lines().filter_map(|line| line.split_once('='));
    let given = pairs().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    match Variables::read(given) {
        Ok(read) => {
            let _ = CheckSettings::combine(&read, &Options::DEFAULT, &[], None, "train::step");
        }
        Err(message) => assert!(pairs().any(|(name, _)| message.contains(name)), "{message}"),
    }
}
