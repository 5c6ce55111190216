//! The annotated tests and warm-ups of this program, for runners other than libtest and
//! [`main!`](crate::main!).
//!
//! ```
//! use gpu_leak_check::{registry, run};
//!
//! for case in registry::cases() {
//!     if !case.ignored {
//!         println!("{}", case.name());
//!         run(case);
//!     }
//! }
//! ```

use crate::case::Case;

inventory::collect!(&'static Case);

/// A function that runs before the first check of a process.
#[derive(Clone, Copy, Debug)]
pub struct Warmup {
    /// The full path of the function, beginning with the crate.
    pub path: &'static str,
    /// The function.
    pub run: fn(),
}

inventory::collect!(&'static Warmup);

/// Returns all warm-ups, ordered by path, which is the order in which they run.
pub fn warmups() -> Vec<&'static Warmup> {
    let mut warmups: Vec<_> = inventory::iter::<&Warmup>().copied().collect();
    warmups.sort_by_key(|warmup| warmup.path);
    warmups
}

/// Returns all tests, ordered by path, because the order in which tests are registered is not
/// defined.
pub fn cases() -> Vec<&'static Case> {
    let mut cases: Vec<_> = inventory::iter::<&Case>().copied().collect();
    cases.sort_by_key(|case| case.path);
    cases
}
