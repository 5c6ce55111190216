//! How to make your own allocator visible to checks: a source reports its blocks, and a probe
//! reports its reserve.
//!
//! ```text
//! cargo test -p gpu-leak-examples --test 03_your_own_allocator
//! ```
//!
//! The pool, in `pool.rs`, hands out pages from slabs of host memory, so that the lesson needs no
//! GPU. A pool of device memory would differ only in where its slabs come from.
#![expect(clippy::print_stdout, reason = "the output is the lesson's purpose")]

mod pool;

use std::error::Error;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_examples::lesson;

use pool::POOL;

/// The slab with the page stays cached, but the check empties the cache before it takes its
/// snapshot.
#[gpu_leak_check]
#[test]
fn gives_its_page_back() {
    let page = POOL.take();
    POOL.give_back(page);
}

#[gpu_leak_check]
#[test]
fn forgets_a_page() {
    POOL.take();
}

#[gpu_leak_check]
#[test]
fn leaves_the_pool_with_a_slab_that_nobody_uses() {
    POOL.warm_up();
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("Three tests of a pool of slabs, which reports its pages and has a probe.");
    let checked = lesson::run_tests()?;
    let statuses: Vec<_> = checked.iter().map(|test| test.report.status).collect();
    let planned = [
        CheckStatus::Clean,
        CheckStatus::Found(FindingKind::Leaked),
        CheckStatus::Found(FindingKind::Retained),
    ];
    if statuses != planned {
        return Err(format!("{planned:?} were planned, not {statuses:?}").into());
    }
    println!(
        "\nAs planned: one is clean, one leaks a page, and one leaves an unused slab in reserve."
    );
    Ok(())
}
