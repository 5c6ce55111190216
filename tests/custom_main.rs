//! A test binary without libtest: its `#[test]` functions are deleted, their cases stay.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_leak_check::{gpu_leak_check, registry};

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[gpu_leak_check]
#[test]
fn of_libtest() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[gpu_leak_check]
#[tokio::test]
async fn of_a_runtime() -> Result<(), String> {
    RUNS.fetch_add(10, Ordering::Relaxed);
    Ok(())
}

#[gpu_leak_check]
fn of_nothing() {
    RUNS.fetch_add(100, Ordering::Relaxed);
}

fn main() -> ExitCode {
    let cases = registry::cases();
    let names: Vec<_> = cases.iter().map(|case| case.name()).collect();
    assert_eq!(names, ["of_a_runtime", "of_libtest", "of_nothing"]);
    for case in cases {
        assert_eq!((case.body)(), ExitCode::SUCCESS, "{}", case.path);
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 111);
    ExitCode::SUCCESS
}
