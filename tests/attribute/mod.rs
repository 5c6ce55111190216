//! `#[gpu_leak_check]` on every form of test, beside every other attribute.

mod order;

use gpu_leak_check::case::Case;
use gpu_leak_check::registry;

/// The one registered case of this name.
fn case(name: &str) -> &'static Case {
    let mut cases = registry::cases();
    cases.retain(|case| case.name() == name);
    assert_eq!(cases.len(), 1, "cases named `{name}`");
    cases[0]
}
