//! The parts of a report, shown by four tests that leave something in different ways.
//!
//! ```text
//! cargo test -p gpu-leak-examples --test 02_reading_a_report [-- --device cuda:0]
//! ```
//!
//! 1. The headline counts the leaks and names the line that allocated them. Below the excerpt, the
//!    report shows that line's numbers of allocations and frees, its callers, and whether a second
//!    run left the same allocations again.
//! 2. A leak that a second run does not repeat is `first-use`: one-time set-up, which is reported
//!    but is not a failure.
//! 3. Memory that a tolerance covers is not a finding. The table and a note still show it.
//! 4. If a test fails for another reason, that remains its outcome, and the leak is reported as
//!    well.
#![expect(clippy::print_stdout, reason = "the output is the lesson's purpose")]

use std::error::Error;
use std::mem::forget;
use std::sync::OnceLock;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_examples::{device_named, lesson, option};
use gpu_leak_kernels::{Device, Result, Tensor};

#[gpu_leak_check]
#[test]
fn forgets_two_of_eight() -> Result<()> {
    for batch in 0..8 {
        let inputs = Tensor::zeros([64, 100], device())?;
        if batch % 4 == 3 {
            forget(inputs);
        }
    }
    Ok(())
}

#[gpu_leak_check]
#[test]
fn makes_a_table_once() -> Result<()> {
    static TABLE: OnceLock<Tensor> = OnceLock::new();
    if TABLE.get().is_none() {
        let _ = TABLE.set(Tensor::zeros([1024], device())?);
    }
    Ok(())
}

#[gpu_leak_check(tolerance = "4 KiB", reserved_tolerance = "2 MiB")]
#[test]
fn keeps_no_more_than_it_may() -> Result<()> {
    forget(Tensor::zeros([1024], device())?);
    Ok(())
}

#[gpu_leak_check]
#[test]
fn fails_by_itself_and_leaks() -> Result<()> {
    forget(Tensor::zeros([1024], device())?);
    // This fails, because 2 rows of 100 numbers are not 256 numbers.
    Tensor::zeros([256], device())?.reshape([2, 100])?;
    Ok(())
}

/// The device that the tests share.
static DEVICE: OnceLock<Device> = OnceLock::new();

fn device() -> &'static Device {
    DEVICE.get().expect("`main` creates it")
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let name = option("--device")?.unwrap_or_else(|| "embedded".to_owned());
    let device = device_named(&name)?;
    println!("Four tests on {device} that leave something.");
    DEVICE.get_or_init(|| device);

    let checked = lesson::run_tests()?;
    let results: Vec<_> = checked
        .iter()
        .map(|test| (test.report.status, test.failed))
        .collect();
    let planned = [
        (CheckStatus::Found(FindingKind::Leaked), true),
        (CheckStatus::Found(FindingKind::FirstUse), false),
        (CheckStatus::Clean, false),
        (CheckStatus::Found(FindingKind::Leaked), true),
    ];
    if results != planned {
        return Err(format!("{planned:?} was planned, not {results:?}").into());
    }
    println!("\nAs planned: two tests fail, and two pass with a note about what they keep.");
    Ok(())
}
