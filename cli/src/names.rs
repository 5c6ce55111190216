//! Tests by name, in a sentence.

use gpu_leak_check::report::escape;
use gpu_leak_check::units::quantity;

/// `train::a, train::b and 3 more`, at most so many by name.
pub(crate) fn some_of(tests: &[&str], most: usize) -> String {
    let shown: Vec<_> = tests
        .iter()
        .take(most)
        .map(|test| escape::name(test))
        .collect();
    let mut text = shown.join(", ");
    if let more @ 1.. = tests.len().saturating_sub(most) {
        text += &format!(" and {}", quantity(more as u64, "more test"));
    }
    text
}
