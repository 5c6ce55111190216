//! The lists of functions agree with the table of watched functions.

use std::collections::BTreeSet;

use super::{base, variants};

/// The list of functions that are not watched, with the reasons.
const NOT_WATCHED: &str = include_str!("../../harness/src/api/cuda/not_watched.toml");

/// The page that tells users about these functions.
const PAGE: &str = include_str!("../../docs/limits.md");

fn not_watched() -> BTreeSet<&'static str> {
    let quoted = NOT_WATCHED.split('"').skip(1).step_by(2);
    let names = quoted.filter(|text| text.starts_with("cu") && !text.contains(' '));
    names.collect()
}

#[test]
fn no_watched_function_is_listed_as_not_watched() {
    let left_out = not_watched();
    assert!(left_out.len() > 40, "{left_out:?}");
    let watched: BTreeSet<_> = variants().iter().map(|(name, _)| base(name).0).collect();
    let both: Vec<_> = watched.intersection(&left_out).collect();
    assert!(
        both.is_empty(),
        "watched, and also in harness/src/api/cuda/not_watched.toml: {both:?}"
    );
}

#[test]
fn functions_documented_as_not_watched_are_not_watched() {
    let left_out = not_watched();
    let paragraphs = PAGE.split("\n\n").filter(|paragraph| {
        let begins = |words| paragraph.starts_with(words);
        begins("Not watched yet:") || begins("Deliberately not watched:")
    });
    let named = paragraphs.flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    let functions: Vec<_> = named.filter(|name| name.starts_with("cu")).collect();
    assert!(functions.len() >= 5, "{functions:?}");
    for function in functions {
        assert!(
            left_out.contains(function),
            "docs/limits.md says that {function} is not watched, and not_watched.toml does not have it"
        );
    }
}
