//! How many orders of its threads' steps a scenario is run in, and which.

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// How many orders of each sort a scenario is run in, unless [`FACTOR`] says more.
const MANY: usize = 3000;
/// The same where every run makes a ledger, which takes milliseconds.
const FEW: usize = 100;
/// The variable that multiplies both.
const FACTOR: &str = "INTERLEAVINGS";
/// The same orders in every run, so that nothing fails now and then.
const SEED: u64 = 0x6c65_616b;
/// How often, at most, a thread is held up for all others in one order. Most mistakes need one or
/// two such moments.
const DEPTH: usize = 3;

/// Runs `scenario` in orders drawn at random, and in such that hold one thread up for long at a few
/// moments, which a coin at every step seldom does.
///
/// # Panics
///
/// When the scenario does in any of them, or its threads wait for each other for ever.
pub fn many_orders(scenario: fn()) {
    drawn(MANY, scenario);
}

/// As [`many_orders`], of a scenario with a ledger.
///
/// # Panics
///
/// As [`many_orders`].
pub fn some_orders(scenario: fn()) {
    drawn(FEW, scenario);
}

fn drawn(orders: usize, scenario: fn()) {
    let orders = orders * factor();
    run(RandomScheduler::new_from_seed(SEED, orders), scenario);
    run(PctScheduler::new_from_seed(SEED, DEPTH, orders), scenario);
}

/// Runs `scenario`, a small one, in every order there is.
///
/// # Panics
///
/// As [`many_orders`].
pub fn every_order(scenario: fn()) {
    run(DfsScheduler::new(None, false), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    // What it warns of stands in `sync`.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}

/// Hundreds for a long run.
fn factor() -> usize {
    let Ok(factor) = std::env::var(FACTOR) else {
        return 1;
    };
    factor
        .parse()
        .unwrap_or_else(|_| panic!("{FACTOR}={factor}: a whole number is needed"))
}
