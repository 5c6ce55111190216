//! Who took it, and when.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::model::Verdict;
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::{checked, gpu};

use super::driver::{self, Pointer, allocate, allocate_async, context, free, free_async};
use super::{assert_one_leak, only_finding};

const HERE: &str = "boundary::owners::";

fn run(test: &str) -> checked::Checked {
    checked::run(&format!("{HERE}{test}"))
}

static BEFORE: Mutex<Option<Pointer>> = Mutex::new(None);

/// Takes memory that the tracer sees, for the first check has brought it up, and that no check owns.
fn take_before() {
    uses_memory_of_its_own();
    context();
    *BEFORE.lock().unwrap() = Some(allocate(1000).unwrap());
}

#[test]
fn taken_before_and_freed_inside_is_shown_without_credit() {
    let checked = run("frees_what_was_there");
    checked.assert_clean();
    let [_, report] = &checked.reports[..] else {
        panic!("{}", checked.story())
    };
    let note = "1 object, 1,000 B, taken before the test and given back inside it: no credit";
    assert_eq!(report.notes, [note], "{}", checked.story());
}

#[test]
#[ignore = "run in a process of its own"]
fn frees_what_was_there() {
    take_before();
    only_frees();
}

#[gpu_leak_check]
#[ignore = "needs what its caller takes"]
#[test]
fn only_frees() {
    context();
    if let Some(before) = BEFORE.lock().unwrap().take() {
        free(before).unwrap();
    }
}

#[test]
fn freeing_old_memory_does_not_hide_a_new_leak_of_the_same_size() {
    assert_one_leak(&run("frees_one_and_leaks_another"), Kind::Linear, 1000);
}

#[test]
#[ignore = "run in a process of its own"]
fn frees_one_and_leaks_another() {
    take_before();
    swaps();
}

#[gpu_leak_check(confirm = false)]
#[ignore = "needs what its caller takes"]
#[test]
fn swaps() {
    only_frees_unchecked();
    allocate(1000).unwrap();
}

fn only_frees_unchecked() {
    context();
    free(BEFORE.lock().unwrap().take().unwrap()).unwrap();
}

#[test]
fn taken_before_and_alive_after_is_the_baseline() {
    let checked = run("keeps_what_was_there");
    checked.assert_clean();
    let device = &checked.reports[1].devices[0];
    let row = device
        .rows
        .iter()
        .find(|row| row.layer == "driver")
        .expect("the driver's row");
    assert_eq!(
        (row.baseline, row.after),
        (1000, 1000),
        "{}",
        checked.story()
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn keeps_what_was_there() {
    take_before();
    touches_nothing_old();
}

#[gpu_leak_check]
#[ignore = "needs what its caller takes"]
#[test]
fn touches_nothing_old() {
    context();
    free(allocate(50).unwrap()).unwrap();
}

#[gpu_leak_check]
#[ignore = "needs what its caller takes"]
#[test]
fn uses_memory_of_its_own() {
    context();
    free(allocate(50).unwrap()).unwrap();
}

#[test]
fn taken_inside_by_a_thread_of_the_test_is_a_finding() {
    let checked = run("leaks_on_a_thread");
    let finding = assert_one_leak(&checked, Kind::Linear, 64);
    assert_eq!(finding.foreign_thread, None, "it inherited the scope");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_a_thread() {
    thread::spawn(|| {
        context();
        allocate(64).unwrap();
    })
    .join()
    .unwrap();
}

/// A thread that does `job` whenever it is told to, and answers.
type Worker = mpsc::Sender<mpsc::Sender<()>>;

fn worker(name: &str, mut job: impl FnMut() + Send + 'static) -> Worker {
    let (jobs, inbox) = mpsc::channel::<mpsc::Sender<()>>();
    let thread = thread::Builder::new().name(name.to_owned());
    let work = move || {
        for done in inbox {
            context();
            job();
            done.send(()).unwrap();
        }
    };
    thread.spawn(work).unwrap();
    jobs
}

fn have_it_done(worker: &Worker) {
    let (done, answer) = mpsc::channel();
    worker.send(done).unwrap();
    answer.recv().unwrap();
}

/// A thread that was there before every check and does what it is told.
pub(super) fn old_thread() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let take = || {
        allocate(128).unwrap();
    };
    THREAD.get_or_init(|| worker("old worker", take))
}

#[test]
fn taken_inside_by_an_older_thread_while_nothing_else_runs_is_a_finding_marked_with_it() {
    let checked = run("leaks_on_an_old_thread");
    let finding = assert_one_leak(&checked, Kind::Linear, 128);
    assert_eq!(
        finding.foreign_thread.as_deref(),
        Some("old worker"),
        "{}",
        checked.story()
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn leaks_on_an_old_thread() {
    context();
    old_thread();
    has_an_old_thread_leak();
}

#[gpu_leak_check]
#[ignore = "needs the thread that its caller starts"]
#[test]
fn has_an_old_thread_leak() {
    have_it_done(old_thread());
}

#[test]
fn freed_on_another_thread_while_the_check_settles_is_clean() {
    run("is_freed_late").assert_clean();
}

/// The thread outlives the body, and says so by taking its time; however long that is, it must be
/// waited for.
#[gpu_leak_check(settle = "60s")]
#[ignore = "run in a process of its own"]
#[test]
fn is_freed_late() {
    context();
    let taken = allocate_async(4096);
    let body = thread::current();
    let (end, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Closed when the body's thread has dropped its end: then the body is over.
        let _ = ended.recv();
        drop(body);
        context();
        free_async(taken);
    });
    DROPPED_WITH_THE_THREAD.set(Some(end));
}

thread_local! {
    static DROPPED_WITH_THE_THREAD: std::cell::Cell<Option<mpsc::Sender<()>>> =
        const { std::cell::Cell::new(None) };
}

#[test]
fn captured_memory_is_the_graph_s() {
    run("captures").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn captures() {
    driver::run_captured_graph();
}

#[test]
fn what_is_made_once_and_kept_is_told_and_fails_nothing() {
    let checked = run("fills_a_static");
    let story = checked.story();
    assert!(checked.child.status.success(), "{story}");
    let finding = only_finding(checked.report(), &story);
    assert_eq!(finding.verdict, Verdict::FirstUse, "{story}");
    assert_eq!(
        (finding.kind, finding.bytes),
        (Some(Kind::StreamOrdered), 4000),
        "{story}"
    );
    assert!(checked.child.stderr.contains("first-use"), "{story}");
}

/// As a library does that keeps its last result, or its last event, until there is a new one.
#[test]
fn what_each_run_only_replaces_is_no_leak() {
    let checked = run("keeps_its_last_result");
    let story = checked.story();
    assert!(checked.child.status.success(), "{story}");
    assert_eq!(checked.report().verdict, Verdict::FirstUse, "{story}");
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

/// As a library's own thread does, which comes to a line from whatever it works at.
#[test]
fn what_an_older_thread_replaces_by_another_way_is_no_leak() {
    let checked = run("has_a_keeper_s_result");
    let story = checked.story();
    assert!(checked.child.status.success(), "{story}");
    let finding = only_finding(checked.report(), &story);
    let what = (finding.verdict, finding.foreign_thread.as_deref());
    assert_eq!(what, (Verdict::FirstUse, Some("keeper")), "{story}");
}

#[test]
#[ignore = "run in a process of its own"]
fn has_a_keeper_s_result() {
    context();
    keeper();
    waits_for_the_keeper();
}

/// Keeps its last result until it has the next.
fn keeper() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let mut last = None;
    let keep = move || {
        let result = match last {
            None => one_way(),
            Some(_) => other_way(),
        };
        if let Some(old) = last.replace(result) {
            free(old).unwrap();
        }
    };
    THREAD.get_or_init(|| worker("keeper", keep))
}

#[gpu_leak_check]
#[ignore = "needs the thread that its caller starts"]
#[test]
fn waits_for_the_keeper() {
    have_it_done(keeper());
}

#[test]
fn what_is_made_once_and_kept_fails_where_the_policy_says_so() {
    let fake = Fake::new();
    let test = format!("{HERE}fills_a_static");
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    let checked = checked::finish(run.env("GPU_LEAK_CHECK_FIRST_USE", "fail"));
    assert!(!checked.child.status.success(), "{}", checked.story());
    assert_eq!(
        checked.report().verdict,
        Verdict::FirstUse,
        "{}",
        checked.story()
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
fn what_a_nested_check_took_and_freed_is_clean_for_both() {
    let checked = run("checks_inside_a_check");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.story());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn checks_inside_a_check() {
    uses_memory_of_its_own();
}

#[test]
fn what_a_stranger_reserved_while_others_may_run_is_no_finding() {
    let test = format!("{HERE}runs_beside_a_stranger");
    let fake = Fake::new();
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    checked::finish(run.in_company()).assert_clean();
}

#[test]
#[ignore = "run in a process of its own"]
fn runs_beside_a_stranger() {
    context();
    stranger();
    has_a_stranger_reserve();
}

/// A thread that was there before every check and takes memory of a pool when it is told.
fn stranger() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let take = || {
        allocate_async(64 << 20);
    };
    THREAD.get_or_init(|| worker("stranger", take))
}

#[gpu_leak_check]
#[ignore = "needs the thread that its caller starts"]
#[test]
fn has_a_stranger_reserve() {
    have_it_done(stranger());
}

#[test]
fn a_leak_that_is_come_to_by_another_way_each_time_is_no_first_use() {
    assert_one_leak(&run("leaks_by_turns"), Kind::Linear, 32);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_by_turns() {
    static TURN: AtomicBool = AtomicBool::new(false);
    context();
    if TURN.fetch_xor(true, Ordering::Relaxed) {
        one_way();
    } else {
        other_way();
    }
}

#[test]
fn what_comes_partly_by_another_way_in_the_second_run_is_no_first_use() {
    let checked = run("leaks_mostly_by_turns");
    let findings = &checked.report().findings;
    let told = |count| {
        let told = findings.iter().find(|finding| finding.count == count);
        told.map(|finding| (finding.verdict, finding.bytes))
    };
    let story = checked.story();
    assert_eq!(findings.len(), 2, "{story}");
    assert_eq!(told(2), Some((Verdict::Leaked, 64)), "{story}");
    assert_eq!(told(1), Some((Verdict::Leaked, 32)), "{story}");
}

/// Three in each run: two one way and one the other, then all of them the other.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_mostly_by_turns() {
    static IS_SECOND: AtomicBool = AtomicBool::new(false);
    context();
    let ways: [fn() -> Pointer; 3] = match IS_SECOND.swap(true, Ordering::Relaxed) {
        false => [one_way, one_way, other_way],
        true => [other_way; 3],
    };
    for way in ways {
        let _kept = way();
    }
}

/// The two differ, or the compiler would make one of them.
#[inline(never)]
fn one_way() -> Pointer {
    black_box(1);
    take()
}

#[inline(never)]
fn other_way() -> Pointer {
    black_box(2);
    take()
}

#[inline(never)]
fn take() -> Pointer {
    allocate(32).unwrap()
}

#[test]
fn taken_by_a_thread_that_an_earlier_check_started_is_of_unknown_owner() {
    let checked = run("has_an_earlier_check_s_thread_at_work");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.story());
}

#[test]
#[ignore = "run in a process of its own"]
fn has_an_earlier_check_s_thread_at_work() {
    starts_a_thread_that_stays();
    has_an_old_thread_leak();
}

#[gpu_leak_check(settle = "1ms")]
#[ignore = "run in a process of its own"]
#[test]
fn starts_a_thread_that_stays() {
    context();
    old_thread();
}
