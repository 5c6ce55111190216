//! What several runs leave is a leak, whichever runs they are. What a run leaves counts even if
//! other runs leave something else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome};
use gpu_leak_check::{Check, Place, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use super::allocators::{Block, give_back, take, take_on};
use super::driver;
use super::{MIB, assert_leaked, assert_verdict, bytes, kinds, report, run};

static RUNS: AtomicU32 = AtomicU32::new(0);

/// Returns the number of the current run of this process's only checked body, counted from 1.
#[expect(clippy::print_stderr, reason = "the parent counts the runs")]
fn begin_run() -> u32 {
    eprintln!("the body runs");
    RUNS.fetch_add(1, Ordering::Relaxed) + 1
}

fn runs(checked: &Checked) -> usize {
    checked.child.stderr.matches("the body runs").count()
}

fn cold_path() {
    take(MIB);
}

fn warm_path() {
    take(MIB);
}

fn third_path() {
    take(MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn takes_a_cold_and_then_a_warm_path() {
    if begin_run() == 1 {
        cold_path();
    } else {
        warm_path();
    }
}

#[test]
fn memory_that_a_cold_and_a_warm_path_lose_is_a_leak() {
    let checked = run("second_run::takes_a_cold_and_then_a_warm_path");
    assert_leaked(&checked, "takes_a_cold_and_then_a_warm_path", MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn takes_another_path_each_time() {
    match begin_run() {
        1 => cold_path(),
        2 => warm_path(),
        _ => third_path(),
    }
}

#[test]
fn memory_that_each_of_three_runs_loses_elsewhere_is_a_leak() {
    let checked = run("second_run::takes_another_path_each_time");
    let test = "takes_another_path_each_time";
    assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(runs(&checked), 3, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_much_after_a_little() {
    if begin_run() == 1 {
        take(1);
    } else {
        for _ in 0..100 {
            take(MIB);
        }
    }
}

#[test]
fn a_small_leak_of_the_first_run_hides_no_large_one_of_later_runs() {
    let checked = run("second_run::leaks_much_after_a_little");
    assert_leaked(&checked, "leaks_much_after_a_little", 100 * MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_one_device_in_every_other_run() {
    match begin_run() {
        2 => _ = take_on(Place::named("reporting:1"), 7),
        _ => _ = take(MIB),
    }
}

#[test]
fn memory_that_the_first_and_third_run_lose_at_one_site_is_a_leak() {
    let checked = run("second_run::leaks_on_one_device_in_every_other_run");
    assert_leaked(&checked, "leaks_on_one_device_in_every_other_run", MIB);
    assert_eq!(runs(&checked), 3, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps something else in each of its runs"]
#[test]
fn keeps_something_on_another_device_each_time() {
    let device = begin_run();
    take_on(Place::named(&format!("reporting:{device}")), MIB);
}

#[test]
fn memory_left_only_by_the_second_run_gets_a_third_run_and_no_fourth() {
    let test = "keeps_something_on_another_device_each_time";
    let checked = run(&format!("second_run::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FirstUse));
    assert!(!report.findings.is_empty(), "{}", checked.output());
    assert_eq!(runs(&checked), 3, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "makes what it keeps in two runs"]
#[test]
fn makes_one_static_in_each_of_two_runs() {
    match begin_run() {
        1 => _ = take(MIB),
        2 => _ = take(2 * MIB),
        _ => {}
    }
}

#[test]
fn memory_that_the_last_run_does_not_leave_is_reported_but_fails_nothing() {
    let test = "makes_one_static_in_each_of_two_runs";
    let checked = run(&format!("second_run::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FirstUse));
    let output = checked.output();
    assert_eq!(runs(&checked), 3, "{output}");
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::FirstUse)),
        3 * MIB,
        "{output}"
    );
}

#[gpu_leak_check]
#[ignore = "makes what it keeps in its first run"]
#[test]
fn makes_a_static() {
    static MADE: Once = Once::new();
    begin_run();
    MADE.call_once(|| _ = take(MIB));
}

#[test]
fn two_runs_are_enough_where_the_second_leaves_nothing() {
    let checked = run("second_run::makes_a_static");
    assert_verdict(
        &checked,
        "makes_a_static",
        CheckStatus::Found(FindingKind::FirstUse),
    );
    assert_eq!(runs(&checked), 2, "{}", checked.output());
}

static LAST: Mutex<Option<Block>> = Mutex::new(None);

#[gpu_leak_check]
#[ignore = "keeps its last block"]
#[test]
fn replaces_what_the_run_before_it_kept() {
    let new = Block::new(MIB);
    *LAST.lock().expect("no run panics") = Some(new);
}

#[test]
fn memory_left_by_one_run_and_freed_by_a_later_one_is_deferred() {
    let test = "replaces_what_the_run_before_it_kept";
    let checked = run(&format!("second_run::{test}"));
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let report = checked.report();
    assert_eq!(report.status.name(), "deferred", "{output}");
    assert_eq!(kinds(report), ["deferred"], "{output}");
    assert_eq!(report.findings[0].bytes, MIB, "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn replaces_one_block_and_loses_another() {
    let new = Block::new(MIB);
    take(7);
    *LAST.lock().expect("no run panics") = Some(new);
}

#[test]
fn deferred_memory_hides_no_leak_beside_it() {
    let checked = run("second_run::replaces_one_block_and_loses_another");
    assert_leaked(&checked, "replaces_one_block_and_loses_another", 7);
}

#[gpu_leak_check]
#[ignore = "frees twice on purpose"]
#[test]
fn frees_twice_in_its_second_run() {
    static MADE: Once = Once::new();
    driver::context();
    // Causes a second run.
    MADE.call_once(|| _ = driver::take(1000));
    let pointer = driver::take(1000);
    driver::free(pointer);
    if begin_run() == 2 {
        driver::rejected_free(pointer);
    }
}

#[test]
fn a_free_that_fails_in_the_second_run_fails_the_test() {
    let test = "frees_twice_in_its_second_run";
    let checked = checked::on(&Fake::new(), &format!("second_run::{test}"));
    assert_verdict(&checked, test, CheckStatus::Found(FindingKind::FailedFree));
}

/// Behaves like `log::set_logger`.
fn set_logger() {
    static SET: Once = Once::new();
    let mut first = false;
    SET.call_once(|| first = true);
    assert!(first, "the logger was set before");
}

#[gpu_leak_check]
#[ignore = "can run only once"]
#[test]
fn sets_a_logger_and_makes_a_static() {
    static MADE: Once = Once::new();
    set_logger();
    MADE.call_once(|| _ = take(MIB));
}

#[test]
fn a_leak_of_a_body_that_cannot_run_twice_is_inconclusive() {
    let test = "sets_a_logger_and_makes_a_static";
    let checked = run(&format!("second_run::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Inconclusive);
    let output = checked.output();
    let reason = report.reason.as_ref().expect("a reason");
    assert!(reason.what.contains("second run"), "{output}");
    let whose = format!("run 2 of second_run::{test}, which was meant to confirm findings, ended");
    let (panic, after) = output
        .split_once("the logger was set before")
        .expect(&output);
    assert!(
        !panic.contains(&whose) && after.contains(&whose),
        "{output}"
    );
    // The report still contains what the first run left.
    assert!(output.contains("1.00 MiB"), "{output}");
}

#[gpu_leak_check(max_allocated = 1000)]
#[ignore = "can run only once"]
#[test]
fn sets_a_logger_and_exceeds_its_limit() {
    set_logger();
    driver::context();
    driver::free(driver::take(2000));
}

#[test]
fn a_limit_that_no_second_run_confirms_is_not_called_memory_left_behind() {
    let test = "sets_a_logger_and_exceeds_its_limit";
    let checked = checked::on(&Fake::new(), &format!("second_run::{test}"));
    let report = assert_verdict(&checked, test, CheckStatus::Inconclusive);
    let output = checked.output();
    assert_eq!(kinds(report), ["over-budget"], "{output}");
    let what = &report.reason.as_ref().expect("a reason").what;
    assert!(what.contains("the findings of the first run"), "{output}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn expects_a_static_beside_a_leak() {
    take(MIB);
    static ONCE: Once = Once::new();
    Check::new("set-up")
        .expect_count(1)
        .run(|| ONCE.call_once(|| _ = take(8)));
}

/// The run that confirms the leak cannot leave the static again.
#[test]
fn an_expectation_that_only_the_first_run_meets_hides_no_leak() {
    let checked = run("second_run::expects_a_static_beside_a_leak");
    let test = checked.reports.last().expect("the test's report");
    let leaked = CheckStatus::Found(FindingKind::Leaked);
    assert_eq!(test.status, leaked, "{}", checked.output());
    let blocks = checked.reports.iter().filter(|it| it.test != test.test);
    let outcomes: Vec<_> = blocks.map(|block| block.outcome).collect();
    assert_eq!(outcomes, [Some(Outcome::Pass); 2], "{}", checked.output());
}

fn at_one_line(bytes: u64) -> u64 {
    take(bytes)
}

/// Leaks at one line in each run. The second run also frees another block, which the first run left
/// at that line. Later runs leave blocks at a different line, which do not replace that block.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn frees_beside_a_leak_and_loses_something_new() {
    static KEPT: Mutex<u64> = Mutex::new(0);
    let mut kept = KEPT.lock().expect("no panic");
    at_one_line(MIB);
    match begin_run() {
        1 => *kept = at_one_line(40),
        run => {
            if run == 2 {
                give_back(*kept);
            }
            take(1);
        }
    }
}

#[test]
fn a_free_beside_a_leak_excuses_no_leak_of_the_second_run() {
    let test = "frees_beside_a_leak_and_loses_something_new";
    let checked = run(&format!("second_run::{test}"));
    assert_leaked(&checked, test, MIB + 1);
}

fn other_path() {
    take(40);
}

/// Leaves two blocks of 40 B in the first run, and one of 60 B in each later run.
#[gpu_leak_check(tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn stays_within_its_tolerance_in_each_run_at_other_lines() {
    match begin_run() {
        1 => {
            take(40);
            other_path();
        }
        2 => _ = take(60),
        _ => _ = take(60),
    }
}

#[test]
fn memory_of_another_run_counts_once_against_the_tolerance() {
    let test = "stays_within_its_tolerance_in_each_run_at_other_lines";
    let checked = run(&format!("second_run::{test}"));
    assert_verdict(&checked, test, CheckStatus::Clean);
    assert_eq!(runs(&checked), 3, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_nine_and_then_seven() {
    let count = match begin_run() {
        1 => 9,
        _ => 7,
    };
    (0..count).for_each(|_| _ = take(MIB));
}

#[test]
fn memory_that_a_later_run_left_less_of_was_not_freed() {
    let checked = run("second_run::leaves_nine_and_then_seven");
    let report = report(&checked, "leaves_nine_and_then_seven");
    let figures = |kind| {
        let finding = report.findings.iter().find(|finding| finding.kind == kind);
        finding.map(|finding| (finding.count, finding.allocated, finding.freed))
    };
    assert_eq!(figures(FindingKind::Leaked), Some((7, 7, 0)));
    assert_eq!(figures(FindingKind::FirstUse), Some((2, 9, 0)));
    let output = checked.output();
    assert!(
        output.contains("allocated here 7 times, never freed"),
        "{output}"
    );
}

/// Leaves 60 B and 40 B in the first run, and 40 B twice in each later run.
#[gpu_leak_check(tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn stays_within_its_tolerance_in_each_run_by_turns() {
    let run = begin_run();
    for step in 0..2 {
        match (run, step) {
            (1, 0) => take(60),
            _ => take(40),
        };
    }
}

#[test]
fn a_tolerance_holds_for_each_run_by_itself() {
    let test = "stays_within_its_tolerance_in_each_run_by_turns";
    let checked = run(&format!("second_run::{test}"));
    assert_verdict(&checked, test, CheckStatus::Clean);
    assert_eq!(runs(&checked), 3, "{}", checked.output());
}
