//! Facts that a report shows in addition to its findings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, When};
use gpu_leak_check::{Check, Place, gpu_leak_check, probe};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use super::driver::{allocate, allocate_async, context, free, free_async, keep_reserve};
use super::owners::old_thread;
use super::{assert_noted_report, assert_one_leak, only_finding};

const HERE: &str = "boundary::facts::";

fn run(test: &str) -> Checked {
    checked::run(&format!("{HERE}{test}"))
}

#[test]
fn the_age_of_a_leak_is_reported_in_calls() {
    let checked = run("leaks_by_the_third_of_five_calls");
    let finding = assert_one_leak(&checked, Kind::Linear, 24);
    let third = When {
        first: 3,
        last: 3,
        of: 5,
    };
    let output = checked.output();
    assert_eq!(finding.when, Some(third), "{output}");
    let order = "   order      allocated #1 of 8 B; freed #1; allocated #2 of 24 B, #3 of 8 B; freed #3; left: #2\n";
    assert!(checked.child.stderr.contains(order), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_by_the_third_of_five_calls() {
    context();
    free(allocate(8).unwrap()).unwrap();
    allocate(24).unwrap();
    free(allocate(8).unwrap()).unwrap();
}

#[test]
fn the_order_of_many_calls_is_not_reported() {
    let checked = run("leaks_by_the_last_of_many_calls");
    assert_one_leak(&checked, Kind::Linear, 24);
    let output = checked.output();
    assert!(!checked.child.stderr.contains("   order"), "{output}");
    let line = "   when       call 21 of the 21 that allocated or freed during the test\n";
    assert!(checked.child.stderr.contains(line), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_by_the_last_of_many_calls() {
    context();
    for _ in 0..10 {
        free(allocate(8).unwrap()).unwrap();
    }
    allocate(24).unwrap();
}

/// The outer check does not count memory that a nested check allocated and freed, so it does not
/// know the whole order.
#[test]
fn the_order_is_not_reported_unless_all_of_it_is_known() {
    let checked = run("leaks_beside_a_check_inside");
    assert_one_leak(&checked, Kind::Linear, 24);
    assert!(
        !checked.child.stderr.contains("   order"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_beside_a_check_inside() {
    context();
    Check::new("inside").run(|| free(allocate(8).unwrap()).unwrap());
    free(allocate(8).unwrap()).unwrap();
    allocate(24).unwrap();
}

#[test]
fn a_tolerance_that_was_not_enough_is_reported() {
    let checked = run("leaks_above_its_tolerance");
    assert_one_leak(&checked, Kind::Linear, 24);
    let note = "24 B of driver memory on cuda:0 remained allocated, more than the tolerance of 23 \
                B";
    assert_noted_report(checked.report(), note);
}

#[gpu_leak_check(tolerance = 23)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_above_its_tolerance() {
    context();
    allocate(24).unwrap();
}

#[test]
fn two_calls_on_one_line_are_one_finding() {
    let checked = run("leaks_twice_on_a_line");
    let output = checked.output();
    let finding = only_finding(checked.report(), &output);
    assert_eq!((finding.count, finding.bytes), (2, 16), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_twice_on_a_line() {
    context();
    let take = || allocate(8).unwrap();
    let _both = [take(), take()];
}

#[test]
fn a_reserve_that_rises_while_others_run_is_reported_and_not_judged() {
    let fake = Fake::new().fault("fail:cuMemPoolTrimTo=999");
    let run = fake.run(&format!("{HERE}keeps_a_reserve_beside_another_thread"));
    let checked = checked::finish(run.beside_others());
    let output = checked.output();
    checked.assert_clean();
    assert_noted_report(checked.report(), "pool 0 on cuda:0 reserves 32.0 MiB more");
    assert!(output.contains("not judged"), "{output}");
}

#[test]
#[ignore = "run where its pool cannot be emptied"]
fn keeps_a_reserve_beside_another_thread() {
    context();
    old_thread();
    keeps_a_reserve();
}

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn keeps_a_reserve() {
    let (done, answer) = mpsc::channel();
    old_thread().send(done).unwrap();
    answer.recv().unwrap();
    context();
    keep_reserve();
    free_async(allocate_async(1));
}

/// An allocator that has a probe and reports no blocks.
struct Hoard(AtomicU64);

static HOARD: Hoard = Hoard(AtomicU64::new(0));
probe!(&HOARD);

impl Probe for Hoard {
    fn name(&self) -> &'static str {
        "hoard"
    }

    fn places(&self) -> Vec<Place> {
        match self.reserved(Place::HOST) {
            0 => Vec::new(),
            _ => vec![Place::HOST],
        }
    }

    fn allocated(&self, _: Place) -> u64 {
        0
    }

    fn reserved(&self, _: Place) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

#[test]
fn a_finding_by_a_probe_needs_no_gpu_and_gives_no_reason_for_one() {
    let fake = Fake::new().devices(0);
    let checked = checked::on(&fake, &format!("{HERE}hoards"));
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Retained),
        "{output}"
    );
    assert_eq!(report.reason, None, "{output}");
    assert!(!output.contains("no GPU"), "{output}");
}

#[gpu_leak_check]
#[ignore = "keeps a reserve on purpose"]
#[test]
fn hoards() {
    HOARD.0.fetch_add(64, Ordering::Relaxed);
}
