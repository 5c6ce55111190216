//! A second run shows whether a body creates a resource once and keeps it, or leaves another one in
//! each run.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::{checked, gpu};

use super::driver::{Pointer, allocate, allocate_async, context, free};
use super::owners::{Worker, have_it_done, worker};
use super::{assert_one_leak, only_finding};

const HERE: &str = "boundary::first_use::";

fn run(test: &str) -> checked::Checked {
    checked::run(&format!("{HERE}{test}"))
}

#[test]
fn memory_created_once_and_kept_is_reported_and_fails_nothing() {
    let checked = run("fills_a_static");
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let finding = only_finding(checked.report(), &output);
    assert_eq!(finding.kind, FindingKind::FirstUse, "{output}");
    assert_eq!(
        (finding.resource, finding.bytes),
        (Some(Kind::StreamOrdered), 4000),
        "{output}"
    );
    assert!(checked.child.stderr.contains("first-use"), "{output}");
}

/// Behaves like a library that keeps its last result, or its last event, until there is a new one.
#[test]
fn memory_that_each_run_only_replaces_is_not_a_leak() {
    let checked = run("keeps_its_last_result");
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Deferred),
        "{output}"
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_its_last_result() {
    static LAST: Mutex<Option<Pointer>> = Mutex::new(None);
    context();
    let result = allocate(1000).unwrap();
    if let Some(old) = LAST.lock().unwrap().replace(result) {
        free(old).unwrap();
    }
}

/// Behaves like a library's own thread, which reaches one line from different callers.
#[test]
fn memory_that_an_older_thread_replaces_by_another_path_is_not_a_leak() {
    let checked = run("has_a_keeper_s_result");
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let finding = only_finding(checked.report(), &output);
    let what = (finding.kind, finding.foreign_thread.as_deref());
    assert_eq!(what, (FindingKind::Deferred, Some("keeper")), "{output}");
}

#[test]
#[ignore = "run in a process of its own"]
fn has_a_keeper_s_result() {
    context();
    keeper();
    waits_for_the_keeper();
}

/// A thread that keeps its last result until there is a new one.
fn keeper() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let mut last = None;
    let keep = move || {
        let result = match last {
            None => one_path(),
            Some(_) => other_path(),
        };
        if let Some(old) = last.replace(result) {
            free(old).unwrap();
        }
    };
    THREAD.get_or_init(|| worker("keeper", keep))
}

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn waits_for_the_keeper() {
    have_it_done(keeper());
}

#[test]
fn memory_created_once_and_kept_fails_if_the_policy_says_so() {
    let fake = Fake::new();
    let test = format!("{HERE}fills_a_static");
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    let checked = checked::finish(run.env("GPU_LEAK_CHECK_FIRST_USE", "fail"));
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::FirstUse),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn fills_a_static() {
    static TABLE: OnceLock<Pointer> = OnceLock::new();
    context();
    TABLE.get_or_init(|| allocate_async(4000));
}

#[test]
fn a_leak_reached_by_another_path_each_time_is_not_first_use() {
    assert_one_leak(&run("leaks_by_turns"), Kind::Linear, 32);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_by_turns() {
    static TURN: AtomicBool = AtomicBool::new(false);
    context();
    if TURN.fetch_xor(true, Ordering::Relaxed) {
        one_path();
    } else {
        other_path();
    }
}

#[test]
fn a_leak_reached_partly_by_another_path_later_is_not_first_use() {
    let checked = run("leaks_mostly_by_turns");
    let findings = &checked.report().findings;
    let find = |count| {
        let reported = findings.iter().find(|finding| finding.count == count);
        reported.map(|finding| (finding.kind, finding.bytes))
    };
    let output = checked.output();
    assert_eq!(findings.len(), 2, "{output}");
    assert_eq!(find(2), Some((FindingKind::Leaked, 64)), "{output}");
    assert_eq!(find(1), Some((FindingKind::Leaked, 32)), "{output}");
}

/// Leaves three blocks in each run. In the first run, two of them have one call path and the third
/// has another; in the second run, all three have that other path.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_mostly_by_turns() {
    static IS_SECOND: AtomicBool = AtomicBool::new(false);
    context();
    let paths: [fn() -> Pointer; 3] = match IS_SECOND.swap(true, Ordering::Relaxed) {
        false => [one_path, one_path, other_path],
        true => [other_path; 3],
    };
    for path in paths {
        let _kept = path();
    }
}

/// This function and the next one differ, because the compiler would otherwise merge them.
#[inline(never)]
fn one_path() -> Pointer {
    black_box(1);
    take()
}

#[inline(never)]
fn other_path() -> Pointer {
    black_box(2);
    take()
}

#[inline(never)]
fn take() -> Pointer {
    allocate(32).unwrap()
}
