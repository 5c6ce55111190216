//! The interleavings in which scenarios run, and their number.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// The number of interleavings of each kind, unless [`FACTOR`] changes it.
const MANY: usize = 3000;
/// The number of interleavings for scenarios that create a ledger in each run, which takes
/// milliseconds.
const FEW: usize = 100;
/// The environment variable that multiplies both numbers.
const FACTOR: &str = "INTERLEAVINGS";
/// The seed is fixed, so that the interleavings are the same in every run.
const SEED: u64 = 0x6c65_616b;
/// The maximum number of times in one run that a thread is delayed until all others wait or have
/// ended. Most bugs need one or two such delays.
const DEPTH: usize = 3;

/// Runs `scenario` in random interleavings, and in interleavings that delay one thread for a long
/// time at a few moments, which random steps rarely do.
///
/// # Panics
///
/// Panics if the scenario panics in any interleaving, or if its threads deadlock.
pub fn many_orders(scenario: fn()) {
    drawn(MANY, scenario);
}

/// Like [`many_orders`], but runs fewer interleavings, for a scenario that creates a ledger.
///
/// # Panics
///
/// Panics under the same conditions as [`many_orders`].
pub fn some_orders(scenario: fn()) {
    drawn(FEW, scenario);
}

fn drawn(orders: usize, scenario: fn()) {
    let orders = orders * factor();
    run(RandomScheduler::new_from_seed(SEED, orders), scenario);
    run(PctScheduler::new_from_seed(SEED, DEPTH, orders), scenario);
}

/// Runs a small `scenario` in every possible interleaving.
///
/// # Panics
///
/// Panics under the same conditions as [`many_orders`].
pub fn every_order(scenario: fn()) {
    run(DfsScheduler::new(None, false), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    // The warning is explained in `sync`.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}

/// Returns the value of [`FACTOR`], which is in the hundreds for a long run.
fn factor() -> usize {
    let Ok(factor) = std::env::var(FACTOR) else {
        return 1;
    };
    factor
        .parse()
        .unwrap_or_else(|_| panic!("{FACTOR}={factor}: a whole number is needed"))
}
