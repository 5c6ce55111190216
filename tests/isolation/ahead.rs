//! The harness intercepts driver calls from the first one on, even before the first check. If
//! nothing is checked, it loads no driver into the process.

#![expect(
    unsafe_code,
    reason = "calls the driver, and runs a function before `main`"
)]

use std::fs;

use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;

/// Three tests on two threads. When the last one begins, one of the others has ended.
mod suite {
    use std::sync::Barrier;

    use cudarc::driver::{CudaContext, result};
    use gpu_leak_check::{gpu_leak_check, ledger};

    static BOTH: Barrier = Barrier::new(2);

    fn takes_before_any_check() {
        let context = CudaContext::new(0).expect("device 0");
        // SAFETY: the context is current.
        unsafe { result::malloc_sync(100) }.expect("memory");
        // Keeps the context for good, like a library.
        std::mem::forget(context);
        BOTH.wait();
    }

    #[test]
    #[ignore = "one of a suite"]
    fn a_unchecked() {
        takes_before_any_check();
    }

    #[test]
    #[ignore = "one of a suite"]
    fn b_unchecked() {
        takes_before_any_check();
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn c_checked() {
        let taken = ledger::live().select(|record| record.made.bytes == 100);
        assert_eq!(taken.len(), 2, "both were heard");
    }
}

/// Tests that have no checks.
mod unchecked {
    #[test]
    #[ignore = "one of a suite"]
    fn one() {
        super::assert_no_driver();
    }

    #[test]
    #[ignore = "one of a suite"]
    fn other() {
        super::assert_no_driver();
    }
}

/// Tests whose checks are switched off.
mod switched_off {
    use gpu_leak_check::gpu_leak_check;

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn one() {
        super::assert_no_driver();
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn other() {
        super::assert_no_driver();
    }
}

/// The variable that makes the process start a thread before `main`, as libraries with a thread of
/// their own do.
const EARLY_THREAD: &str = "GPU_LEAK_TESTS_EARLY_THREAD";

#[cfg(target_os = "linux")]
extern "C" fn start_early_thread() {
    if std::env::var_os(EARLY_THREAD).is_some() {
        let thread = std::thread::spawn(|| ());
        thread.join().expect("it does nothing");
    }
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: the C library calls each function in this section once, before `main`; this one does not
// depend on `main`.
#[unsafe(link_section = ".init_array")]
static START_EARLY_THREAD: extern "C" fn() = start_early_thread;

fn assert_no_driver() {
    let maps = fs::read_to_string("/proc/self/maps").expect("the files in this process");
    assert!(!maps.contains("libcuda.so"), "the driver is loaded");
}

fn run(module: &str, variables: &[(&str, &str)]) -> Checked {
    let fake = Fake::new();
    let run = fake.env().into_iter().fold(
        Run::of_all(&format!("isolation::ahead::{module}"), 2),
        |run, (name, value)| run.env(name, value),
    );
    let run = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    checked::finish(run)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn allocations_of_unchecked_tests_before_the_first_check_are_heard() {
    let checked = run("suite", &[]);
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 1, "{}", checked.output());
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn calls_before_the_first_check_are_heard_beside_an_early_thread() {
    let checked = run("suite", &[(EARLY_THREAD, "1")]);
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 1, "{}", checked.output());
}

#[test]
fn a_run_without_checks_loads_no_driver() {
    let checked = run("unchecked", &[]);
    assert!(checked.child.status.success(), "{}", checked.output());
    let checked = run("switched_off", &[("GPU_LEAK_CHECK", "off")]);
    assert!(checked.child.status.success(), "{}", checked.output());
}
