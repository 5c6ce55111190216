//! Calls that fail inside a test.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::Code;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::{Control, Fake};

use super::driver::{allocate, allocate_async, context, free, free_async, keep_reserve, request};
use super::{assert_clean_with_note, assert_noted, only_finding};

const HERE: &str = "boundary::failures::";

fn run(test: &str) -> Checked {
    checked::run(&format!("{HERE}{test}"))
}

/// Runs the test on the stand-in with this fault, which a real driver has only if it is broken.
fn run_with(fault: &str, test: &str) -> Checked {
    checked::on(&Fake::new().fault(fault), &format!("{HERE}{test}"))
}

#[test]
fn running_out_of_memory_inside_is_not_a_finding() {
    assert_clean_with_note(
        &run("asks_for_too_much"),
        "1 × CUDA_ERROR_OUT_OF_MEMORY: 64.0 TiB of linear memory, requested at tests/boundary/",
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn asks_for_too_much() {
    context();
    allocate(1 << 46).unwrap_err();
}

#[test]
fn a_request_whose_pointer_comes_back_null_is_not_a_finding() {
    // The driver reports success but returns no pointer.
    run_with("fail:cuMemAlloc_v2=0@1", "is_answered_null").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run on the stand-in"]
#[test]
fn is_answered_null() {
    context();
    assert_eq!(request(100), 0);
    let answered = request(100);
    assert_ne!(answered, 0);
    free(answered).unwrap();
}

#[test]
fn an_address_freed_twice_is_a_failed_free() {
    let checked = run("frees_twice");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    let finding = only_finding(checked.report(), &output);
    assert_eq!(finding.kind, FindingKind::FailedFree, "{output}");
    let failed = finding.failed.as_ref().expect("the error and where");
    assert_eq!(
        (failed.code, &*failed.error),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        "{output}"
    );
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn frees_twice() {
    context();
    let pointer = allocate(8).unwrap();
    free(pointer).unwrap();
    free(pointer).unwrap_err();
}

#[test]
fn a_free_that_fails_leaves_its_memory_and_explains_it() {
    let checked = run_with("fail:cuMemFree_v2=1@1", "frees_once");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    let report = checked.report();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::FailedFree),
        "{output}"
    );
    let finding = only_finding(report, &output);
    assert_eq!(
        (finding.resource, finding.bytes),
        (Some(Kind::Linear), 24),
        "{output}"
    );
}

#[gpu_leak_check]
#[ignore = "run where the free fails"]
#[test]
fn frees_once() {
    context();
    // The body ignores the error, but the check reports it.
    let _ = free(allocate(24).unwrap());
}

#[test]
fn a_successfully_repeated_free_hides_no_other_leak_of_the_line() {
    let checked = run_with("fail:cuMemFree_v2=1@1", "frees_one_again_and_leaks_another");
    let output = checked.output();
    let findings = checked.report().findings.iter();
    let reported: Vec<_> = findings
        .map(|finding| (finding.kind, finding.count, finding.bytes))
        .collect();
    let expected = [
        (FindingKind::Leaked, 1, 40),
        (FindingKind::FailedFree, 1, 24),
    ];
    assert_eq!(reported, expected, "{output}");
}

#[gpu_leak_check]
#[ignore = "run where the first free fails"]
#[test]
fn frees_one_again_and_leaks_another() {
    context();
    let mut taken = Vec::new();
    for bytes in [24, 40] {
        taken.push(allocate(bytes).unwrap());
    }
    if free(taken[0]).is_err() {
        free(taken[0]).unwrap();
    }
}

#[test]
fn failures_in_one_of_the_rounds_are_reported() {
    let checked = run_with("fail:cuMemFree_v2=1@2", "goes_wrong_in_its_second_round");
    let (report, output) = (checked.report(), checked.output());
    let reported: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.kind, finding.count, finding.bytes))
        .collect();
    let expected = [
        (FindingKind::FailedFree, 1, 24),
        (FindingKind::Grew, 3, 120),
        (FindingKind::OverBudget, 1, 40 + 24 + 4096),
    ];
    assert_eq!(reported, expected, "{output}");
    let refused = "1 × CUDA_ERROR_OUT_OF_MEMORY: 64.0 TiB of linear memory";
    assert!(
        report.notes.iter().any(|note| note.contains(refused)),
        "{output}"
    );
}

#[gpu_leak_check(rounds = 3, max_allocated = "1 KiB")]
#[ignore = "run where the second free fails"]
#[test]
fn goes_wrong_in_its_second_round() {
    static ROUND: AtomicU32 = AtomicU32::new(1);
    context();
    allocate(40).unwrap();
    // The body ignores the error, but the check reports it.
    let _ = free(allocate(24).unwrap());
    if ROUND.fetch_add(1, Ordering::Relaxed) == 2 {
        free(allocate(4096).unwrap()).unwrap();
        allocate(1 << 46).unwrap_err();
    }
}

#[test]
fn a_pool_that_keeps_its_reserve_is_emptied_first() {
    run("makes_the_pool_keep_memory").assert_clean();
}

#[test]
fn a_pool_that_cannot_be_emptied_is_reported_as_first_use() {
    let checked = run_with("fail:cuMemPoolTrimTo=999", "makes_the_pool_keep_memory");
    let output = checked.output();
    let finding = only_finding(checked.report(), &output);
    assert_eq!(finding.bytes, 32 << 20, "{output}");
    // The second run finds that the block already exists, and allocates nothing.
    assert_eq!(finding.kind, FindingKind::FirstUse, "{output}");
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn makes_the_pool_keep_memory() {
    context();
    keep_reserve();
    free_async(allocate_async(1));
}

#[test]
fn a_context_broken_before_the_check_is_inconclusive() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}begins_with_a_broken_context"));
    let output = checked.output();
    let [_, report] = &checked.reports[..] else {
        panic!("{output}")
    };
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(
        (report.status, reason.code),
        (CheckStatus::Inconclusive, Code::Poisoned),
        "{output}"
    );
}

fn break_context() {
    let control = Control::of_this_process().expect("the stand-in");
    control.poison(context().cu_ctx() as u64);
}

#[test]
#[ignore = "run on the stand-in"]
fn begins_with_a_broken_context() {
    // Makes a driver call, because the harness knows a context only once it has intercepted a call
    // that uses it.
    uses_the_context();
    break_context();
    does_nothing();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_the_context() {
    context();
    free(allocate(8).unwrap()).unwrap();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn does_nothing() {}

#[test]
fn a_context_broken_inside_is_named_by_the_checks_after_it() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}breaks_and_goes_on"));
    let output = checked.output();
    let [first, second] = &checked.reports[..] else {
        panic!("{output}")
    };
    let finding = only_finding(first, &output);
    assert_eq!(finding.kind, FindingKind::FailedFree, "{output}");
    assert_eq!(
        finding.failed.as_ref().expect("the error").code,
        700,
        "{output}"
    );
    assert_noted(finding, "the context is broken");
    let runs = checked.child.stderr.matches(RUNS).count();
    assert_eq!(runs, 1, "a second run could only fail\n{output}");
    let reason = second.reason.as_ref().expect("a reason");
    assert_eq!(
        (second.status, reason.code),
        (CheckStatus::Inconclusive, Code::Poisoned),
        "{output}"
    );
    assert!(
        reason
            .what
            .contains("by boundary::failures::breaks_its_context"),
        "{}",
        reason.what
    );
}

#[test]
#[ignore = "run on the stand-in"]
fn breaks_and_goes_on() {
    context();
    std::panic::catch_unwind(breaks_its_context).expect_err("frees fail");
    does_nothing();
}

#[test]
fn a_free_that_failed_before_the_context_broke_is_a_finding_of_its_own() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}frees_twice_and_breaks"));
    let output = checked.output();
    let findings = checked.report().findings.iter();
    let reported: Vec<_> = findings
        .map(|finding| {
            let failed = finding.failed.as_ref().expect("the error");
            (finding.kind, finding.count, failed.code)
        })
        .collect();
    let expected = [
        (FindingKind::FailedFree, 2, 700),
        (FindingKind::FailedFree, 1, 1),
    ];
    assert_eq!(reported, expected, "{output}");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn frees_twice_and_breaks() {
    context();
    let freed = allocate(8).unwrap();
    free(freed).unwrap();
    free(freed).unwrap_err();
    let taken = [allocate(100).unwrap(), allocate(200).unwrap()];
    break_context();
    for pointer in taken {
        free(pointer).unwrap_err();
    }
}

#[test]
fn a_context_broken_in_a_later_run_of_a_body_is_named_too() {
    for test in [
        "breaks_in_the_second_run",
        "breaks_in_the_second_round",
        "breaks_as_it_warms_up",
    ] {
        let checked = checked::on(&Fake::new(), &format!("{HERE}goes_on_after_{test}"));
        let output = checked.output();
        let report = checked.reports.last().expect("a report");
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code, Code::Poisoned, "{output}");
        let named = format!("by boundary::failures::{test}");
        assert!(reason.what.contains(&named), "{}\n{output}", reason.what);
    }
}

#[test]
#[ignore = "run on the stand-in"]
fn goes_on_after_breaks_in_the_second_run() {
    context();
    let _ = std::panic::catch_unwind(breaks_in_the_second_run);
    does_nothing();
}

#[test]
#[ignore = "run on the stand-in"]
fn goes_on_after_breaks_in_the_second_round() {
    context();
    let _ = std::panic::catch_unwind(breaks_in_the_second_round);
    does_nothing();
}

#[test]
#[ignore = "run on the stand-in"]
fn goes_on_after_breaks_as_it_warms_up() {
    // Makes a driver call, because the harness knows a context only once it has intercepted a call
    // that uses it.
    uses_the_context();
    let _ = std::panic::catch_unwind(breaks_as_it_warms_up);
    does_nothing();
}

/// Leaves a block, and in the second run also a broken context.
fn leaves_then_breaks() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    context();
    allocate(100).unwrap();
    if RUNS.fetch_add(1, Ordering::Relaxed) == 1 {
        break_context();
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn breaks_in_the_second_run() {
    leaves_then_breaks();
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "leaks on purpose"]
#[test]
fn breaks_in_the_second_round() {
    leaves_then_breaks();
}

#[gpu_leak_check(warmup = 1)]
#[ignore = "breaks its context on purpose"]
#[test]
fn breaks_as_it_warms_up() {
    static BROKEN: AtomicBool = AtomicBool::new(false);
    if !BROKEN.swap(true, Ordering::Relaxed) {
        break_context();
    }
}

/// What a body prints in each run, so that the parent process can count the runs.
const RUNS: &str = "the body runs";

/// Three frees fail after the context broke. They are one finding.
#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
#[expect(clippy::print_stderr, reason = "the parent counts the runs")]
fn breaks_its_context() {
    eprintln!("{RUNS}");
    context();
    let taken: Vec<_> = (0..3).map(|_| allocate(100).unwrap()).collect();
    break_context();
    for pointer in taken {
        free(pointer).unwrap_err();
    }
}
