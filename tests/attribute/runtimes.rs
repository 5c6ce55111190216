//! Async tests: the check covers the runtime's whole lifetime, whether the attribute is above or
//! below that of the runtime.

use std::cell::Cell;

use gpu_leak_check::gpu_leak_check;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{case, fails};

thread_local!(static ON_THIS_THREAD: Cell<bool> = const { Cell::new(false) });

async fn tasks_run() {
    let answer = tokio::spawn(async { 42 }).await.expect("no panic");
    assert_eq!(answer, 42);
    ON_THIS_THREAD.set(true);
}

#[gpu_leak_check]
#[tokio::test]
async fn above() {
    tasks_run().await;
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::CurrentThread
    );
}

#[tokio::test]
#[gpu_leak_check]
async fn below() {
    tasks_run().await;
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::CurrentThread
    );
}

#[gpu_leak_check]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn above_with_workers() {
    tasks_run().await;
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::MultiThread
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[gpu_leak_check]
async fn below_with_workers() -> Result<(), Box<dyn std::error::Error>> {
    tasks_run().await;
    assert_eq!(
        Handle::current().runtime_flavor(),
        RuntimeFlavor::MultiThread
    );
    Ok(())
}

#[test]
fn the_body_of_a_case_starts_and_ends_its_runtime() {
    for name in ["above", "below"] {
        ON_THIS_THREAD.set(false);
        let _ = (case(&format!("attribute::runtimes::{name}")).body)();
        assert!(ON_THIS_THREAD.get(), "{name}");
        assert!(Handle::try_current().is_err(), "{name}");
    }
}

#[gpu_leak_check]
#[tokio::test]
#[should_panic(expected = "inside the runtime")]
async fn panics_as_expected() {
    panic!("inside the runtime");
}

#[gpu_leak_check]
#[tokio::test]
#[ignore = "fails on purpose"]
#[should_panic(expected = "something else")]
async fn panics_otherwise() {
    panic!("inside the runtime");
}

#[test]
fn should_panic_is_judged_outside_the_runtime() {
    let child = fails("attribute::runtimes::panics_otherwise");
    let reported = format!("{}{}", child.stdout, child.stderr);
    assert!(
        reported.contains("panic did not contain expected string"),
        "{reported}"
    );
}

mod imported {
    //! A runtime's test attribute, imported under the same name as libtest's.

    use gpu_leak_check::gpu_leak_check;
    use tokio::test;

    #[gpu_leak_check]
    #[test]
    async fn as_test() {
        super::tasks_run().await;
    }
}

#[test]
fn an_imported_attribute_named_test_is_not_taken_for_that_of_libtest() {
    let case = case("attribute::runtimes::imported::as_test");
    ON_THIS_THREAD.set(false);
    let _ = (case.body)();
    assert!(ON_THIS_THREAD.get());
}
