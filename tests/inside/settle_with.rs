//! Functions that the code under test registers, and that the harness calls before it looks for
//! leaks.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, Scope, gpu_leak_check, settle_with};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{give_back, take};

/// Blocks that a library frees only at its next use.
static LATE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn free_what_is_late() {
    for address in LATE.lock().expect("no test panics with it").drain(..) {
        give_back(address);
    }
}

fn use_the_library() {
    free_what_is_late();
    LATE.lock().expect("no test panics with it").push(take(16));
}

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("inside::settle_with::{test}")))
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn uses_the_library_alone() {
    use_the_library();
}

#[test]
fn without_settle_with_memory_freed_by_the_next_use_is_deferred() {
    let checked = run("uses_the_library_alone");
    let found = CheckStatus::Found(FindingKind::Deferred);
    assert_eq!(checked.reports[0].status, found, "{}", checked.output());
}

#[gpu_leak_check]
#[test]
fn settle_with_frees_in_each_run() {
    settle_with(free_what_is_late);
    use_the_library();
}

#[gpu_leak_check(warmup = 2)]
#[test]
fn settle_with_is_called_after_a_warm_up_too() {
    assert!(LATE.lock().expect("no test panics with it").is_empty());
    settle_with(free_what_is_late);
    LATE.lock().expect("no test panics with it").push(take(16));
}

#[gpu_leak_check]
#[test]
fn settle_with_drops_what_it_holds_before_the_check_ends() {
    struct Held(u64);
    impl Drop for Held {
        fn drop(&mut self) {
            give_back(self.0);
        }
    }
    let held = Held(take(8));
    // The harness also calls functions that such a function registers.
    settle_with(move || settle_with(move || drop(held)));
}

#[gpu_leak_check]
#[test]
fn a_block_and_a_scope_have_their_own_settle_with() {
    let outer = take(4);
    settle_with(move || give_back(outer));
    let returned = Check::new("block").run(|| {
        let inner = take(2);
        settle_with(move || give_back(inner));
        1
    });
    assert_eq!(returned, 1);
    let scope = Scope::open("scope");
    scope.in_scope(|| {
        let inner = take(2);
        settle_with(move || give_back(inner));
    });
    scope.finish().assert_clean();
}

#[gpu_leak_check]
#[ignore = "panics on purpose"]
#[test]
fn panics_in_settle_with() {
    settle_with(|| panic!("the device is lost"));
}

fn registers_itself() {
    settle_with(registers_itself);
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn settles_without_end() {
    registers_itself();
}

#[test]
fn a_function_that_registers_itself_each_time_fails_the_test() {
    let checked = run("settles_without_end");
    let message = "keep registering further ones (100 times so far)";
    assert!(
        checked.child.stderr.contains(message),
        "{}",
        checked.output()
    );
}

#[test]
fn a_panic_in_settle_with_fails_the_test() {
    let checked = run("panics_in_settle_with");
    assert!(!checked.child.status.success(), "{}", checked.output());
    let message = "the device is lost";
    assert!(
        checked.child.stderr.contains(message),
        "{}",
        checked.output()
    );
}

#[test]
#[ignore = "panics on purpose"]
fn finishes_a_scope_that_cannot_settle() {
    let scope = Scope::open("step");
    scope.in_scope(|| settle_with(|| panic!("the device is lost")));
    drop(scope.finish());
}

#[test]
fn a_scope_that_cannot_settle_is_not_reported_as_dropped() {
    let checked = run("finishes_a_scope_that_cannot_settle");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    assert!(output.contains("the device is lost"), "{output}");
    assert!(!output.contains("was dropped without `finish`"), "{output}");
}

#[test]
fn outside_of_every_check_settle_with_is_not_called() {
    settle_with(|| panic!("there is no check"));
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn abandons_a_block() {
    let step = Check::new("abandoned").run_async(async || {
        let taken = take(2);
        settle_with(move || give_back(taken));
        std::future::pending::<()>().await;
    });
    let mut step = pin!(step);
    let mut context = Context::from_waker(Waker::noop());
    assert!(step.as_mut().poll(&mut context).is_pending());
}

#[test]
fn functions_of_an_abandoned_block_are_called_by_the_outer_check() {
    let checked = run("abandons_a_block");
    let around = checked.reports.last().expect("a report");
    assert_eq!(around.status, CheckStatus::Clean, "{}", checked.output());
}
