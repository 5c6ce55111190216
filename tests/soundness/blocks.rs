//! Nested checks. If a nested check does not fail because of a resource, the surrounding check
//! judges that resource.

use std::cell::OnceCell;
use std::future::{Future, pending};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome};
use gpu_leak_check::report::headline;
use gpu_leak_check::{Check, Scope, allow, assert_no_growth, gpu_leak_check, hand_over};
use gpu_leak_tests::checked;

use super::allocators::{Block, POOL, give_back, take};
use super::{KIB, MIB, assert_leaked, assert_verdict, bytes, of, report, run};

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgets_what_a_block_returned() {
    let load = || (0..10).map(|_| Block::new(MIB)).collect::<Vec<_>>();
    let model = Check::new("load").run(load);
    forget(model);
}

#[test]
fn memory_left_by_a_finished_block_counts_for_its_test() {
    let checked = run("blocks::forgets_what_a_block_returned");
    assert_leaked(&checked, "forgets_what_a_block_returned", 10 * MIB);
    let load = report(&checked, "load");
    assert!(!load.status.is_failure(), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn fills_a_cache_of_its_own_in_rounds() {
    let cache = OnceCell::new();
    assert_no_growth(5, || _ = cache.get_or_init(|| take(MIB)));
}

#[test]
fn memory_created_once_in_rounds_counts_for_their_test() {
    let checked = run("blocks::fills_a_cache_of_its_own_in_rounds");
    assert_leaked(&checked, "fills_a_cache_of_its_own_in_rounds", MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_a_little_in_each_of_many_blocks() {
    for _ in 0..20 {
        let step = Check::new("step").tolerance("1 KiB").confirm(false);
        step.run(|| _ = take(1000));
    }
}

#[test]
fn memory_that_blocks_tolerate_adds_up_in_their_test() {
    let checked = run("blocks::leaves_a_little_in_each_of_many_blocks");
    assert_leaked(&checked, "leaves_a_little_in_each_of_many_blocks", 20_000);
}

#[gpu_leak_check(tolerance = 50)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn tolerates_what_its_block_tolerates() {
    let step = Check::new("step").tolerance("1 KiB").confirm(false);
    step.run(|| _ = take(40));
}

#[test]
fn memory_left_by_a_block_is_tolerated_by_the_test_s_own_option() {
    let checked = run("blocks::tolerates_what_its_block_tolerates");
    checked.assert_clean();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn drops_the_report_of_a_scope() {
    let scope = Scope::open("epoch");
    scope.in_scope(|| take(MIB));
    drop(scope.finish());
}

#[test]
fn leaks_that_a_scope_reports_count_for_the_test_unless_they_failed_it() {
    let checked = run("blocks::drops_the_report_of_a_scope");
    assert_leaked(&checked, "drops_the_report_of_a_scope", MIB);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn frees_what_a_scope_left() {
    let epoch = Scope::open("epoch");
    let block = epoch.in_scope(|| Block::new(64));
    assert_eq!(epoch.finish().findings.len(), 1);
    drop(block);
}

/// The report of a scope is no verdict.
#[test]
fn memory_that_is_freed_after_its_scope_is_not_late() {
    let checked = run("blocks::frees_what_a_scope_left");
    checked.assert_clean();
    assert_eq!(checked.late, [], "{}", checked.output());
}

static LEFT: Mutex<Vec<u64>> = Mutex::new(Vec::new());

#[gpu_leak_check]
#[ignore = "needs one that frees what it leaves"]
#[test]
fn leaves_memory_in_a_tolerant_block() {
    let step = Check::new("step").tolerance(100);
    step.run(|| LEFT.lock().expect("no panic").push(take(64)));
}

#[ignore = "run in a process of its own"]
#[test]
fn frees_late_what_a_block_left() {
    assert!(catch_unwind(leaves_memory_in_a_tolerant_block).is_err());
    let left = std::mem::take(&mut *LEFT.lock().expect("no panic"));
    left.into_iter().for_each(give_back);
}

#[test]
fn memory_of_a_block_that_is_freed_after_the_verdict_of_its_test_is_late() {
    let checked = run("blocks::frees_late_what_a_block_left");
    let late = checked.late.iter().map(|it| (it.count, it.bytes));
    assert_eq!(late.collect::<Vec<_>>(), [(2, 128)], "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn goes_on_after_a_block_has_failed() {
    let block = || Check::new("caught").run(|| take(MIB));
    // The failing block prints its report and panics. The panic is caught, so the test body itself
    // finishes normally; only the leak can fail the test.
    drop(catch_unwind(AssertUnwindSafe(block)));
}

#[test]
fn leaks_of_a_failed_block_count_for_the_test_that_caught_its_panic() {
    let checked = run("blocks::goes_on_after_a_block_has_failed");
    let report = assert_verdict(
        &checked,
        "goes_on_after_a_block_has_failed",
        CheckStatus::Found(FindingKind::Leaked),
    );
    assert_ne!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        0,
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn fails_by_the_second_of_two_equal_blocks() {
    let block = || _ = Check::new("step").confirm(false).run(|| take(MIB));
    drop(catch_unwind(AssertUnwindSafe(block)));
    block();
}

#[test]
fn a_caught_block_is_not_taken_for_one_with_the_same_message() {
    let checked = run("blocks::fails_by_the_second_of_two_equal_blocks");
    let test = report(&checked, "fails_by_the_second_of_two_equal_blocks");
    assert_eq!(
        bytes(test, CheckStatus::Found(FindingKind::Leaked)),
        MIB,
        "the caught block's, the other has its own report:\n{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "keeps what is allowed"]
#[test]
fn keeps_a_table_in_a_block_that_an_assertion_ends() {
    let table = || _ = take(KIB);
    let block = Check::new("step").confirm(false);
    let block = block.allow("fn:*keeps_a_table*", "the table is shared");
    drop(catch_unwind(AssertUnwindSafe(|| {
        block.run(|| {
            table();
            let half = Scope::open("half");
            let _freed_by_the_panic = half.in_scope(|| Block::new(MIB));
            half.finish().assert_clean();
        });
    })));
}

#[test]
fn leaks_found_by_an_assertion_are_not_mixed_with_allowed_memory() {
    let checked = run("blocks::keeps_a_table_in_a_block_that_an_assertion_ends");
    let test = "keeps_a_table_in_a_block_that_an_assertion_ends";
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Allowed));
    let allowed = bytes(report, CheckStatus::Found(FindingKind::Allowed));
    assert_eq!(allowed, KIB, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn fails_by_its_block() {
    Check::new("leaky").run(|| take(MIB));
}

#[test]
fn a_leak_that_failed_the_test_by_its_block_is_reported_once() {
    let checked = run("blocks::fails_by_its_block");
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        report(&checked, "leaky").status,
        CheckStatus::Found(FindingKind::Leaked)
    );
    let test = report(&checked, "fails_by_its_block");
    assert_eq!(
        bytes(test, CheckStatus::Found(FindingKind::Leaked)),
        0,
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(on_leak = "warn")]
#[ignore = "leaks on purpose"]
#[test]
fn only_warns_and_fails_by_its_block() {
    Check::new("leaky").run(|| take(MIB));
}

#[gpu_leak_check(on_leak = "warn")]
#[ignore = "leaks on purpose"]
#[test]
fn only_warns_and_fails_by_an_assertion() {
    let step = Scope::open("step");
    step.in_scope(|| take(MIB));
    step.finish().assert_clean();
}

#[gpu_leak_check(on_leak = "warn")]
#[ignore = "leaks on purpose"]
#[test]
fn only_warns_of_its_own_leak_and_fails_by_its_block() {
    take(KIB);
    Check::new("leaky").run(|| take(MIB));
}

#[test]
fn a_test_that_fails_by_a_check_inside_has_failed_although_its_own_leaks_only_cause_a_warning() {
    for (test, inside) in [
        ("only_warns_and_fails_by_its_block", "leaky"),
        ("only_warns_and_fails_by_an_assertion", "step"),
        ("only_warns_of_its_own_leak_and_fails_by_its_block", "leaky"),
    ] {
        let checked = run(&format!("blocks::{test}"));
        let leaked = CheckStatus::Found(FindingKind::Leaked);
        let report = assert_verdict(&checked, test, leaked);
        let output = checked.output();
        assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
        let inside = format!("{}: {inside}", report.test);
        assert_eq!(report.failed_inside.as_ref(), Some(&inside), "{output}");
        let by_inside = format!("leaked: the check {inside} inside this test failed");
        let has_no_finding = report.findings.is_empty();
        let line = headline(report);
        assert_eq!(line.ends_with(&by_inside), has_no_finding, "{line}");
        assert!(!output.contains("the test still passes"), "{output}");
        assert!(!output.contains("warned only"), "{output}");
    }
}

/// Exceeds a limit, and leaves nothing.
fn fail_by_a_block() {
    let busy = Check::new("busy").layer("reporting").max_allocated(10);
    busy.run(|| drop(Block::new(100)));
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn fails_by_a_block_in_a_block() {
    Check::new("epoch").run(fail_by_a_block);
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn fails_by_a_block_in_a_scope() {
    let epoch = Scope::open("epoch");
    epoch.in_scope(fail_by_a_block);
    epoch.finish().assert_clean();
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn fails_by_a_block_in_allowed_code() {
    allow("the table is shared", fail_by_a_block);
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn fails_by_a_block_on_a_thread() {
    let busy = thread::spawn(fail_by_a_block);
    busy.join().expect("no panic on the thread");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn returns_that_a_block_failed() -> Result<(), &'static str> {
    catch_unwind(fail_by_a_block).map_err(|_| "the block failed")
}

#[test]
fn a_test_has_failed_by_a_check_inside_no_matter_what_lies_between_them() {
    for test in [
        "fails_by_a_block_on_a_thread",
        "returns_that_a_block_failed",
        "fails_by_a_block_in_a_block",
        "fails_by_a_block_in_a_scope",
        "fails_by_a_block_in_allowed_code",
    ] {
        let checked = run(&format!("blocks::{test}"));
        let over = CheckStatus::Found(FindingKind::OverBudget);
        let report = assert_verdict(&checked, test, over);
        let output = checked.output();
        assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
        let inside = report.failed_inside.as_deref();
        assert!(inside.is_some_and(|it| it.ends_with(": busy")), "{output}");
        assert_eq!(report.findings, [], "{output}");
    }
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn keeps_a_reserve_and_fails_by_the_limit_of_its_block() {
    POOL.reserve(MIB);
    let step = Check::new("step").layer("pool").max_reserved(10);
    step.run_once(|| POOL.reserve(MIB));
}

#[test]
fn a_limit_that_failed_a_block_is_not_offset_against_the_reserve_of_its_test() {
    let test = "keeps_a_reserve_and_fails_by_the_limit_of_its_block";
    let checked = run(&format!("blocks::{test}"));
    let retained = CheckStatus::Found(FindingKind::Retained);
    let report = assert_verdict(&checked, test, retained);
    assert_eq!(bytes(report, retained), MIB, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps what is allowed"]
#[test]
fn excuses_objects_inside_a_block() {
    let step = Check::new("step").confirm(false);
    step.run(|| {
        allow("the table is shared", || take(KIB));
        hand_over(take(2 * KIB));
    });
}

#[test]
fn an_excuse_for_an_object_also_holds_in_the_test_around_its_block() {
    let checked = run("blocks::excuses_objects_inside_a_block");
    let test = "excuses_objects_inside_a_block";
    let report = assert_verdict(&checked, test, CheckStatus::Found(FindingKind::Allowed));
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Allowed)),
        KIB,
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn nests_blocks_three_deep() {
    let kept = OnceCell::new();
    Check::new("outer").run(|| {
        Check::new("middle").run(|| {
            Check::new("inner").run(|| _ = kept.get_or_init(|| take(MIB)));
        });
    });
}

#[test]
fn memory_created_once_by_the_innermost_block_counts_for_the_test() {
    let checked = run("blocks::nests_blocks_three_deep");
    assert_leaked(&checked, "nests_blocks_three_deep", MIB);
}

#[gpu_leak_check]
#[ignore = "counts the runs of a block"]
#[test]
#[expect(clippy::print_stderr, reason = "the parent counts the runs")]
fn runs_a_block_that_leaves_something() {
    let kept = OnceCell::new();
    let check = Check::new("keeps");
    check.run(|| {
        eprintln!("the block runs");
        kept.get_or_init(|| take(MIB));
    });
}

#[test]
fn a_block_does_not_confirm_while_its_test_does() {
    let checked = run("blocks::runs_a_block_that_leaves_something");
    // The block runs twice in the test's first run, to find out what repeats, and once in each
    // later run.
    let output = checked.output();
    assert_eq!(
        checked.child.stderr.matches("the block runs").count(),
        3,
        "{output}"
    );
}

/// A thread that waits for requests.
struct Worker {
    work: Sender<u64>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts a thread that allocates the requested bytes and keeps them.
    fn start() -> Self {
        let (work, asked) = channel();
        let thread = thread::spawn(move || {
            for bytes in asked {
                take(bytes);
            }
        });
        Self { work, thread }
    }

    fn takes(self, bytes: u64) {
        self.work.send(bytes).expect("a thread that waits");
        drop(self.work);
        self.thread.join().expect("a thread that takes");
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn works_on_a_thread_that_a_block_started() {
    let worker = Check::new("start").run(Worker::start);
    worker.takes(MIB);
}

#[test]
fn a_thread_that_a_block_started_works_for_the_test_afterwards() {
    let checked = run("blocks::works_on_a_thread_that_a_block_started");
    assert_leaked(&checked, "works_on_a_thread_that_a_block_started", MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn works_on_a_thread_that_a_scope_started() {
    let scope = Scope::open("start");
    let worker = scope.in_scope(Worker::start);
    scope.finish().assert_clean();
    worker.takes(MIB);
}

#[test]
fn a_thread_that_a_scope_started_works_for_the_test_afterwards() {
    let checked = run("blocks::works_on_a_thread_that_a_scope_started");
    assert_leaked(&checked, "works_on_a_thread_that_a_scope_started", MIB);
}

/// A thread of the test puts a block into a segment that the pool reserved in a nested check.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_block_in_the_segment_of_a_block() {
    let (ask, asked) = channel();
    let (answer, answered) = channel();
    let worker = thread::spawn(move || {
        for segment in asked {
            POOL.take_at(segment, 40);
            answer.send(()).expect("the one that asked waits");
        }
    });
    Check::new("step").run_once(|| {
        drop(Block::new(1));
        ask.send(POOL.reserve(MIB)).expect("the worker waits");
        answered.recv().expect("the worker answers");
    });
    drop(ask);
    worker.join().expect("no panic");
}

#[test]
fn memory_that_another_check_keeps_in_a_segment_explains_it() {
    let checked = run("blocks::keeps_a_block_in_the_segment_of_a_block");
    let step = report(&checked, "step");
    assert_eq!(step.status, CheckStatus::Clean, "{}", checked.output());
    assert_leaked(&checked, "keeps_a_block_in_the_segment_of_a_block", 40);
}

#[test]
#[ignore = "leaks on purpose"]
fn asserts_without_a_check_around() {
    let step = Scope::open("lonely step");
    step.in_scope(|| _ = take(MIB));
    step.finish().assert_clean();
}

#[test]
fn a_failing_assertion_outside_any_check_is_a_verdict_of_its_own() {
    let checked = run("blocks::asserts_without_a_check_around");
    assert_leaked(&checked, "lonely step", MIB);
    let summary = "1 checked: 1 leaked\n  leaked: lonely step";
    assert!(
        checked.child.stderr.contains(summary),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn abandons_blocks() {
    let block = Check::new("fails while it warms up").warmup(1);
    drop(catch_unwind(AssertUnwindSafe(|| {
        block.run(|| panic!("not ready"))
    })));
    let mut abandoned = pin!(Check::new("abandoned").run_async(async || {
        drop(Block::new(1));
        pending::<()>().await;
    }));
    let once = &mut Context::from_waker(Waker::noop());
    assert!(abandoned.as_mut().poll(once).is_pending());
}

#[test]
fn an_abandoned_block_is_not_measured_and_not_aborted() {
    let checked = run("blocks::abandons_blocks");
    for block in ["fails while it warms up", "abandoned"] {
        let report = report(&checked, block);
        assert_eq!(report.status, CheckStatus::NotMeasured);
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code.name(), "unfinished");
    }
    assert_verdict(&checked, "abandons_blocks", CheckStatus::Clean);
}

/// Without a check around it, nobody judges the abandoned scope and block.
#[test]
#[ignore = "abandons a scope and a block on purpose"]
fn abandons_a_scope_and_a_block_without_a_check_around() {
    drop(Scope::open("dropped"));
    let abandoned = Check::new("abandoned");
    let mut abandoned = pin!(abandoned.run_async(async || pending::<()>().await));
    let once = &mut Context::from_waker(Waker::noop());
    assert!(abandoned.as_mut().poll(once).is_pending());
}

#[test]
fn what_is_abandoned_outside_any_check_is_reported_and_fails_no_test() {
    let test = of("blocks::abandons_a_scope_and_a_block_without_a_check_around");
    let checked = checked::finish(test.env("CI", "1").env("GPU_LEAK_CHECK", "require"));
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    for (name, what) in [
        ("dropped", "the scope was dropped without `finish`"),
        (
            "abandoned",
            "the future of the async block was dropped before it completed",
        ),
    ] {
        let report = report(&checked, name);
        assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
        assert_eq!(report.outcome, Some(Outcome::Warn), "{output}");
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.what, what);
        assert!(checked.child.stderr.contains(what), "{output}");
    }
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn has_a_block_with_a_senseless_option() {
    Check::new("step").rounds(2).run(|| ());
}

#[test]
fn a_block_whose_settings_are_refused_fails_its_test() {
    let checked = run("blocks::has_a_block_with_a_senseless_option");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    let block = report(&checked, "step");
    let test = report(&checked, "has_a_block_with_a_senseless_option");
    assert_eq!(test.failed_inside.as_ref(), Some(&block.test), "{output}");
    for report in [block, test] {
        assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
        assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
    }
}

#[gpu_leak_check(unchecked_if(true, "it is known to leak"))]
#[ignore = "leaks on purpose"]
#[test]
fn is_unchecked_and_has_a_block() {
    Check::new("step").run(|| take(MIB));
}

#[test]
fn a_block_has_the_name_of_its_test_even_if_the_test_is_unchecked() {
    let checked = run("blocks::is_unchecked_and_has_a_block");
    let test = "blocks::is_unchecked_and_has_a_block";
    let block = checked.report();
    assert_eq!(block.test, format!("{test}: step"), "{}", checked.output());
    let again = block.again.as_ref().expect("a command");
    assert!(again.contains(test), "{again}");
}

#[gpu_leak_check(unchecked_if(true, "it is known to leak"))]
#[ignore = "leaks on purpose"]
#[test]
fn is_unchecked_and_leaks() {
    take(MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn calls_an_unchecked_test() {
    is_unchecked_and_leaks();
}

#[test]
fn memory_left_by_an_unchecked_test_counts_for_the_test_that_calls_it() {
    let checked = checked::finish(of("blocks::calls_an_unchecked_test").beside_others());
    assert_leaked(&checked, "calls_an_unchecked_test", MIB);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_in_a_block() {
    Check::new("step").run(|| Check::new("half").confirm(false).run(|| _ = take(MIB)));
}

#[test]
fn a_block_is_named_with_its_test_and_run_again_by_it() {
    let checked = run("blocks::leaks_in_a_block");
    let test = "blocks::leaks_in_a_block";
    let of_test = report(&checked, "leaks_in_a_block");
    for (block, name) in [("step", "step"), ("half", "step: half")] {
        let block = report(&checked, block);
        assert_eq!(block.test, format!("{test}: {name}"));
        assert_eq!(block.again, of_test.again);
    }
    assert!(
        of_test
            .again
            .as_ref()
            .is_some_and(|again| again.contains(test))
    );
    let panic = format!("thread '{test}: step: half' panicked at");
    assert!(
        checked.child.stderr.contains(&panic),
        "{}",
        checked.output()
    );
}
