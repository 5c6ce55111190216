//! The owner of a resource depends on which thread created it, and when.

use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::{Scope, gpu_leak_check};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;
use gpu_leak_tests::{checked, gpu};

use super::assert_one_leak;
use super::driver::{self, Pointer, allocate, allocate_async, context, free, free_async};

const HERE: &str = "boundary::owners::";

fn run(test: &str) -> checked::Checked {
    checked::run(&format!("{HERE}{test}"))
}

static BEFORE: Mutex<Option<Pointer>> = Mutex::new(None);

/// Allocates memory that the harness records but no check owns.
fn take_before() {
    uses_memory_of_its_own();
    context();
    *BEFORE.lock().unwrap() = Some(allocate(1000).unwrap());
}

#[test]
fn allocated_before_and_freed_inside_is_shown_without_credit() {
    let checked = run("frees_what_was_there");
    checked.assert_clean();
    let [_, report] = &checked.reports[..] else {
        panic!("{}", checked.output())
    };
    let note = "the test freed resources that were allocated before it (1 object, 1,000 B); they are not \
         offset against leaks";
    assert_eq!(report.notes, [note], "{}", checked.output());
}

#[test]
#[ignore = "run in a process of its own"]
fn frees_what_was_there() {
    take_before();
    only_frees();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
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
#[ignore = "run by a test that sets it up"]
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
fn allocated_before_and_alive_after_is_the_baseline() {
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
        checked.output()
    );
}

#[test]
#[ignore = "run in a process of its own"]
fn keeps_what_was_there() {
    take_before();
    touches_nothing_old();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn touches_nothing_old() {
    context();
    free(allocate(50).unwrap()).unwrap();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_memory_of_its_own() {
    context();
    free(allocate(50).unwrap()).unwrap();
}

#[test]
fn allocated_inside_by_a_thread_of_the_test_is_a_finding() {
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

/// The requests to a thread that runs a job at each request, and then answers.
pub(super) type Worker = mpsc::Sender<mpsc::Sender<()>>;

pub(super) fn worker(name: &str, mut job: impl FnMut() + Send + 'static) -> Worker {
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

pub(super) fn have_it_done(worker: &Worker) {
    let (done, answer) = mpsc::channel();
    worker.send(done).unwrap();
    answer.recv().unwrap();
}

/// A thread that existed before every check and runs a job at each request.
pub(super) fn old_thread() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let take = || {
        allocate(128).unwrap();
    };
    THREAD.get_or_init(|| worker("old worker", take))
}

#[test]
fn allocated_inside_by_an_older_thread_alone_is_a_finding_that_names_it() {
    let checked = run("leaks_on_an_old_thread");
    let finding = assert_one_leak(&checked, Kind::Linear, 128);
    assert_eq!(
        finding.foreign_thread.as_deref(),
        Some("old worker"),
        "{}",
        checked.output()
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
#[ignore = "run by a test that starts its thread"]
#[test]
fn has_an_old_thread_leak() {
    have_it_done(old_thread());
}

#[test]
fn allocated_inside_by_an_older_thread_that_entered_is_a_finding() {
    let checked = run("leaks_on_an_old_thread_that_enters");
    let finding = assert_one_leak(&checked, Kind::Linear, 16);
    assert_eq!(finding.foreign_thread, None, "{}", checked.output());
}

#[test]
#[ignore = "run in a process of its own"]
fn leaks_on_an_old_thread_that_enters() {
    entering_thread();
    enters_an_old_thread();
}

/// The scope that the older thread enters to allocate.
static TO_ENTER: Mutex<Option<Scope>> = Mutex::new(None);

fn entering_thread() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let take = || {
        let scope = TO_ENTER.lock().unwrap().expect("the test's scope");
        scope.in_scope(|| allocate(16).unwrap());
    };
    THREAD.get_or_init(|| worker("entering", take))
}

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn enters_an_old_thread() {
    context();
    *TO_ENTER.lock().unwrap() = Some(Scope::current());
    have_it_done(entering_thread());
}

#[test]
fn allocated_by_an_older_thread_while_others_may_run_has_unknown_owner() {
    let test = format!("{HERE}leaks_on_an_old_thread");
    let fake = Fake::new();
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    let checked = checked::finish(run.beside_others());
    checked.assert_clean();
    for reported in [
        "1 allocation, 128 B by threads outside any check",
        "`isolate` to run that test in its own process",
    ] {
        assert!(
            checked.child.stderr.contains(reported),
            "{}",
            checked.output()
        );
    }
}

#[test]
fn freed_on_another_thread_while_the_check_settles_is_clean() {
    run("is_freed_late").assert_clean();
}

/// The thread outlives the body and frees late. The check must wait for the free, however long it
/// takes.
#[gpu_leak_check(settle = "60s")]
#[ignore = "run in a process of its own"]
#[test]
fn is_freed_late() {
    context();
    let taken = allocate_async(4096);
    let body = thread::current();
    let (end, ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Returns when the body has ended and so dropped its end of the channel.
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
fn memory_allocated_and_freed_in_a_nested_check_is_clean_for_both() {
    let checked = run("checks_inside_a_check");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn checks_inside_a_check() {
    uses_memory_of_its_own();
}

#[test]
fn memory_of_an_unfinished_nested_scope_belongs_to_the_outer_one() {
    let checked = run("never_finishes_a_scope");
    assert_one_leak(&checked, Kind::Linear, 48);
    assert_eq!(checked.reports.len(), 1, "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn never_finishes_a_scope() {
    context();
    let scope = Scope::open("unfinished");
    scope.in_scope(|| allocate(48).unwrap());
}

#[test]
fn reserved_by_an_unrelated_thread_while_others_may_run_is_not_a_finding() {
    let test = format!("{HERE}runs_beside_an_unrelated_thread");
    let fake = Fake::new();
    let run = if gpu::is_present() {
        Run::of(&test)
    } else {
        fake.run(&test)
    };
    checked::finish(run.beside_others()).assert_clean();
}

#[test]
#[ignore = "run in a process of its own"]
fn runs_beside_an_unrelated_thread() {
    context();
    unrelated_thread();
    has_an_unrelated_thread_reserve();
}

/// A thread that existed before every check and allocates from a pool at each request.
fn unrelated_thread() -> &'static Worker {
    static THREAD: OnceLock<Worker> = OnceLock::new();
    let take = || {
        allocate_async(64 << 20);
    };
    THREAD.get_or_init(|| worker("unrelated", take))
}

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn has_an_unrelated_thread_reserve() {
    have_it_done(unrelated_thread());
}

#[test]
fn allocated_by_a_thread_of_an_earlier_check_has_unknown_owner() {
    let checked = run("has_an_earlier_check_s_thread_at_work");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.output());
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

#[test]
fn memory_of_thread_local_destructors_belongs_to_the_test() {
    run("frees_when_its_threads_end").assert_clean();
    assert_one_leak(&run("leaks_when_a_thread_ends"), Kind::Linear, 24);
}

/// When its thread ends, frees the memory that it holds. If it holds none, allocates memory that is
/// never freed.
struct AtTheEnd(Option<Pointer>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        context();
        match self.0 {
            Some(held) => free(held).unwrap(),
            None => _ = allocate(24).unwrap(),
        }
    }
}

thread_local! {
    static AT_THE_END: std::cell::RefCell<Option<AtTheEnd>> =
        const { std::cell::RefCell::new(None) };
}

/// Two threads hold memory until they end: the body's own, and one that the body starts.
#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn frees_when_its_threads_end() {
    let hold = || {
        context();
        AT_THE_END.set(Some(AtTheEnd(Some(allocate(24).unwrap()))));
    };
    hold();
    thread::spawn(hold).join().unwrap();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_when_a_thread_ends() {
    context();
    AT_THE_END.set(Some(AtTheEnd(None)));
}
