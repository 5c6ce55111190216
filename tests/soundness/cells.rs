//! The verdict, with its reason, for each combination of checks and each kind of leftover.
//!
//! Every check tolerates 10 B. All leftovers are larger, except those that should be tolerated.

/// The expected result of one test.
pub(super) struct Cell {
    /// The kind of leftover that the body leaves.
    pub(super) remains: &'static str,
    /// The verdict of the nested check, if there is one.
    pub(super) inner: Option<&'static str>,
    /// The verdict of the test, which is that of its outermost check.
    pub(super) verdict: &'static str,
    pub(super) why: &'static str,
}

const fn one(remains: &'static str, verdict: &'static str, why: &'static str) -> Cell {
    Cell {
        remains,
        inner: None,
        verdict,
        why,
    }
}

const fn two(
    remains: &'static str,
    inner: &'static str,
    verdict: &'static str,
    why: &'static str,
) -> Cell {
    Cell {
        remains,
        inner: Some(inner),
        verdict,
        why,
    }
}

/// The cells of a test on any thread, of a block outside any test, and of a program.
pub(super) const CONFIRMED: [Cell; 11] = [
    one("allowed", "allowed", "the code says that it may stay"),
    one(
        "by_turns",
        "leaked",
        "each of three runs left one somewhere",
    ),
    one("failed_free", "failed-free", "a failed free is not set-up"),
    one("handed_over", "clean", "other code will free it"),
    one("leaked", "leaked", "the second run left it again"),
    one("made_once", "first-use", "the second run left no more"),
    one("replaced", "deferred", "the second run freed the first's"),
    one(
        "reserve",
        "retained",
        "nothing lies in it, and it rose again",
    ),
    one("returned", "clean", "nothing was left"),
    one("sum", "leaked", "nothing else could have changed it"),
    one("tolerated", "clean", "7 B are fewer than 10 B"),
];

/// The cells of a test with `confirm = false`, and of an asserted scope. A single run decides.
pub(super) const UNCONFIRMED: [Cell; 11] = [
    one("allowed", "allowed", "the code says that it may stay"),
    one("by_turns", "leaked", "the one run left it"),
    one("failed_free", "failed-free", "the call failed"),
    one("handed_over", "clean", "other code will free it"),
    one("leaked", "leaked", "the one run left it"),
    one(
        "made_once",
        "leaked",
        "no second run distinguishes it from a leak",
    ),
    one(
        "replaced",
        "leaked",
        "no second run distinguishes it from a leak",
    ),
    one("reserve", "retained", "nothing lies in it"),
    one("returned", "clean", "nothing was left"),
    one("sum", "leaked", "nothing else could have changed it"),
    one("tolerated", "clean", "7 B are fewer than 10 B"),
];

/// The cells of a test with `warmup = 1`.
pub(super) const WARMED: [Cell; 11] = [
    one("allowed", "allowed", "the code says that it may stay"),
    one(
        "by_turns",
        "leaked",
        "each of three runs left one somewhere",
    ),
    one("failed_free", "failed-free", "a measured run's call failed"),
    one("handed_over", "clean", "other code will free it"),
    one("leaked", "leaked", "both measured runs left it"),
    one("made_once", "clean", "the warm-up made it: baseline"),
    one("replaced", "deferred", "the second run freed the first's"),
    one("reserve", "retained", "it rose in both measured runs"),
    one("returned", "clean", "nothing was left"),
    one("sum", "leaked", "it rose in both measured runs"),
    one("tolerated", "clean", "7 B are fewer than 10 B"),
];

/// The cells of a test with `rounds = 4`.
pub(super) const ROUNDS: [Cell; 11] = [
    one("allowed", "allowed", "the code says that it may stay"),
    one("by_turns", "grew", "the sum of all sites grew each time"),
    one("failed_free", "failed-free", "a failed free need not grow"),
    one("handed_over", "clean", "other code will free it"),
    one("leaked", "grew", "each round left one more"),
    one("made_once", "clean", "only the first round left one"),
    one("replaced", "clean", "there is never more than one"),
    one("reserve", "grew", "each round reserved more"),
    one("returned", "clean", "nothing was left"),
    one("sum", "grew", "each round added to it"),
    one("tolerated", "grew", "4 × 7 B are more than 10 B"),
];

/// The cells of a test alongside an unchecked one, which allocates and frees a block during each
/// run.
pub(super) const BESIDE_OTHERS: [Cell; 11] = [
    one("allowed", "allowed", "the code says that it may stay"),
    one("by_turns", "leaked", "its own thread took it"),
    one("failed_free", "failed-free", "its own thread made the call"),
    one("handed_over", "clean", "other code will free it"),
    one("leaked", "leaked", "its own thread took it"),
    one("made_once", "first-use", "the second run left no more"),
    one("replaced", "deferred", "the second run freed the first's"),
    one("reserve", "clean", "it may be the other's: a note"),
    one("returned", "clean", "nothing was left"),
    one("sum", "inconclusive", "the other may have changed it"),
    one("tolerated", "clean", "7 B are fewer than 10 B"),
];

/// The cells of a block in a test. What fails the block also fails the test, without a second
/// report.
pub(super) const BLOCK_IN_A_TEST: [Cell; 11] = [
    two(
        "allowed",
        "allowed",
        "allowed",
        "the excuse goes with the object",
    ),
    two(
        "by_turns",
        "leaked",
        "leaked",
        "the block failed the test for it",
    ),
    two(
        "failed_free",
        "failed-free",
        "failed-free",
        "the block failed the test for it",
    ),
    two("handed_over", "clean", "clean", "other code will free it"),
    two(
        "leaked",
        "leaked",
        "leaked",
        "the block failed the test for it",
    ),
    two(
        "made_once",
        "first-use",
        "first-use",
        "the test's second run left no more",
    ),
    two(
        "replaced",
        "deferred",
        "deferred",
        "the test's second run freed it",
    ),
    two(
        "reserve",
        "retained",
        "retained",
        "the block failed the test for it",
    ),
    two("returned", "clean", "clean", "nothing was left"),
    two(
        "sum",
        "leaked",
        "leaked",
        "the block failed the test for it",
    ),
    two("tolerated", "clean", "clean", "both checks tolerate 7 B"),
];

/// The cells of a test in which the report of a scope is ignored. The scope does not make the
/// test fail, so the test judges everything that the scope leaves.
pub(super) const SCOPE_IN_A_TEST: [Cell; 11] = [
    two(
        "allowed",
        "allowed",
        "allowed",
        "the excuse goes with the object",
    ),
    two(
        "by_turns",
        "leaked",
        "leaked",
        "each of the test's runs left one",
    ),
    two(
        "failed_free",
        "failed-free",
        "failed-free",
        "no check has failed for it",
    ),
    two("handed_over", "clean", "clean", "other code will free it"),
    two("leaked", "leaked", "leaked", "no check has failed for it"),
    two(
        "made_once",
        "leaked",
        "first-use",
        "the test has a second run",
    ),
    two(
        "replaced",
        "leaked",
        "deferred",
        "the test has a second run",
    ),
    two(
        "reserve",
        "retained",
        "retained",
        "no check has failed for it",
    ),
    two("returned", "clean", "clean", "nothing was left"),
    two("sum", "leaked", "leaked", "no check has failed for it"),
    two("tolerated", "clean", "clean", "both checks tolerate 7 B"),
];

/// The cells of a block with rounds in a test. The test judges what does not grow.
pub(super) const ROUNDS_IN_A_TEST: [Cell; 11] = [
    two(
        "allowed",
        "allowed",
        "allowed",
        "the excuse goes with the object",
    ),
    two(
        "by_turns",
        "grew",
        "grew",
        "the block failed the test for it",
    ),
    two(
        "failed_free",
        "failed-free",
        "failed-free",
        "the block failed the test for it",
    ),
    two("handed_over", "clean", "clean", "other code will free it"),
    two("leaked", "grew", "grew", "the block failed the test for it"),
    two(
        "made_once",
        "clean",
        "first-use",
        "the test's first run made it",
    ),
    two(
        "replaced",
        "clean",
        "deferred",
        "the test's second run freed it",
    ),
    two(
        "reserve",
        "grew",
        "grew",
        "the block failed the test for it",
    ),
    two("returned", "clean", "clean", "nothing was left"),
    two("sum", "grew", "grew", "the block failed the test for it"),
    two(
        "tolerated",
        "grew",
        "grew",
        "the block failed the test for it",
    ),
];
