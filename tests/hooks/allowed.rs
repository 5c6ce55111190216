//! Allocations inside `allow` may stay.

use std::panic::catch_unwind;
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, allow, gpu_leak_check};
use gpu_leak_hooked::{Buffer, lookup_table};

use super::{assert_allowed, found, is_for, run};

#[test]
fn memory_that_a_library_allows_is_reported_and_fails_nothing() {
    let checked = run("allowed::makes_a_table");
    assert_allowed(&checked, &[4096]);
    let finding = &checked.report().findings[0];
    assert!(is_for(finding, "the lookup table is shared by all models"));
    let last_line = "1 object, 4.00 KiB allowed to stay";
    assert!(
        checked.child.stderr.contains(last_line),
        "{}",
        checked.output()
    );
    assert!(
        finding.site.location().contains("tests/hooks/allowed.rs"),
        "the library's user: {}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "keeps a table"]
#[test]
fn makes_a_table() {
    lookup_table(4096);
}

#[test]
fn memory_beside_allowed_memory_is_still_a_leak() {
    let checked = run("allowed::makes_a_table_and_leaks");
    let expected = [(FindingKind::Leaked, 7), (FindingKind::Allowed, 4096)];
    assert_eq!(found(checked.report()), expected, "{}", checked.output());
    assert!(!checked.child.status.success());
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn makes_a_table_and_leaks() {
    lookup_table(4096);
    Buffer::new(7).leak();
}

#[test]
fn threads_that_are_started_inside_may_leave_memory_too() {
    assert_allowed(&run("allowed::starts_a_thread_inside"), &[5]);
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn starts_a_thread_inside() {
    let thread = allow("kept", || thread::spawn(|| Buffer::new(5).leak()));
    thread.join().unwrap();
}

#[test]
fn allow_ends_with_a_panic_too() {
    let checked = run("allowed::leaks_after_a_panic_inside");
    let expected = [(FindingKind::Leaked, 7), (FindingKind::Allowed, 5)];
    assert_eq!(found(checked.report()), expected, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn leaks_after_a_panic_inside() {
    let end = catch_unwind(|| {
        allow("kept", || {
            Buffer::new(5).leak();
            panic!("on purpose");
        })
    });
    assert!(end.is_err());
    Buffer::new(7).leak();
}

#[test]
fn the_innermost_reason_counts() {
    let checked = run("allowed::gives_two_reasons");
    assert_allowed(&checked, &[6, 5]);
    let findings = &checked.report().findings;
    assert!(is_for(&findings[0], "inner"), "{}", checked.output());
    assert!(is_for(&findings[1], "outer"), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn gives_two_reasons() {
    allow("outer", || {
        allow("inner", || Buffer::new(6).leak());
        Buffer::new(5).leak();
    });
}

#[test]
fn allow_holds_in_nested_checks() {
    let checked = run("allowed::calls_checks");
    assert!(checked.child.status.success(), "{}", checked.output());
    let reported: Vec<_> = checked.reports.iter().map(found).collect();
    let allowed = |bytes| vec![(FindingKind::Allowed, bytes)];
    // The record of a resource says that it may stay, so the outer check reports it as allowed too.
    let both = [allowed(4096), allowed(5)].concat();
    assert_eq!(
        reported,
        [allowed(5), allowed(4096), both],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn calls_checks() {
    allow("kept by the check inside", leaks);
    makes_a_table();
}

#[gpu_leak_check]
#[ignore = "called by another test"]
#[test]
fn leaks() {
    Buffer::new(5).leak();
}

#[gpu_leak_check]
#[test]
fn allowed_memory_may_be_freed_later() {
    drop(allow("kept", || Buffer::new(5)));
}

#[test]
fn allowed_memory_that_is_freed_is_not_counted_as_earlier_memory() {
    let checked = run("allowed::allowed_memory_may_be_freed_later");
    checked.assert_clean();
    assert!(checked.report().notes.is_empty(), "{}", checked.output());
}

#[test]
fn earlier_memory_freed_inside_gives_no_credit_but_is_reported() {
    let checked = run("allowed::frees_inside");
    let [_, report] = &checked.reports[..] else {
        panic!("{}", checked.output());
    };
    let note = "the test freed resources that were allocated before it (1 object, 5 B); they are \
                not offset against leaks";
    assert_eq!(report.notes, [note], "{}", checked.output());
}

static BEFORE: Mutex<Option<Buffer>> = Mutex::new(None);

#[test]
#[ignore = "run in a process of its own"]
fn frees_inside() {
    allowed_memory_may_be_freed_later();
    *BEFORE.lock().unwrap() = Some(Buffer::new(5));
    only_frees_inside();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn only_frees_inside() {
    allow("kept", || BEFORE.lock().unwrap().take());
}

#[test]
fn a_budget_counts_allowed_memory() {
    let checked = run("allowed::keeps_more_than_its_budget");
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::OverBudget),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "hooked", max_allocated = 4000)]
#[ignore = "fails"]
#[test]
fn keeps_more_than_its_budget() {
    lookup_table(4096);
}

#[test]
fn allowed_memory_in_each_round_is_not_growth() {
    assert_allowed(&run("allowed::keeps_a_table_in_each_round"), &[3 * 4096]);
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "keeps memory"]
#[test]
fn keeps_a_table_in_each_round() {
    lookup_table(4096);
}

/// A thread that the first run starts inside `allow` belongs to the test in the second run as well,
/// where its allocations may stay.
#[test]
fn a_thread_of_the_first_run_may_leave_memory_in_the_second() {
    let checked = run("allowed::has_a_worker_for_good");
    let report = checked.report();
    let expected = [(FindingKind::Leaked, 7), (FindingKind::Allowed, 5)];
    assert_eq!(found(report), expected, "{}", checked.output());
    assert!(
        !checked.child.stderr.contains("outside any check"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn has_a_worker_for_good() {
    static WORKER: LazyLock<mpsc::SyncSender<mpsc::SyncSender<()>>> = LazyLock::new(|| {
        let (jobs, work) = mpsc::sync_channel::<mpsc::SyncSender<()>>(0);
        allow("the worker's own", || {
            thread::spawn(move || {
                for done in work {
                    Buffer::new(5).leak();
                    done.send(()).unwrap();
                }
            })
        });
        jobs
    });
    let (done, is_done) = mpsc::sync_channel(0);
    WORKER.send(done).unwrap();
    is_done.recv().unwrap();
    Buffer::new(7).leak();
}

/// If nothing else can run, a check also judges what a thread outside any scope allocates.
#[test]
fn a_thread_outside_any_check_may_leave_allowed_memory() {
    let checked = run("allowed::has_an_older_worker");
    let expected = [(FindingKind::Leaked, 7)];
    assert_eq!(found(checked.report()), expected, "{}", checked.output());
}

#[ignore = "fails"]
#[test]
fn has_an_older_worker() {
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || {
        for bytes in asked {
            allow("the worker's own", || Buffer::new(5).leak());
            Buffer::new(bytes).leak();
            answer.send(()).unwrap();
        }
    });
    Check::new("asks").run(|| {
        ask.send(7).unwrap();
        answered.recv().unwrap();
    });
}

#[test]
fn allowed_memory_outside_any_check_is_unchecked() {
    let checked = run("allowed::makes_a_table_unchecked");
    let unchecked = "unchecked: hooks::allowed::makes_a_table_unchecked created";
    assert!(
        checked.child.stderr.contains(unchecked),
        "{}",
        checked.output()
    );
}

#[ignore = "run in a process of its own"]
#[test]
fn makes_a_table_unchecked() {
    lookup_table(4096);
}

/// There is one scope for each reason, and not for each call.
#[gpu_leak_check]
#[test]
fn allow_may_be_called_any_number_of_times() {
    for _ in 0..20_000 {
        drop(allow("kept", || Buffer::new(5)));
    }
}

#[test]
fn outside_any_check_allow_changes_nothing() {
    assert_eq!(allow("nobody asks", || 3), 3);
}
