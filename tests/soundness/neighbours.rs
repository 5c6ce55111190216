//! Tests that run alongside checked and unchecked tests. None fails because of what another did. A
//! sum that another test may have changed has no owner, so a check of it is not clean.

use std::sync::{Condvar, Mutex, PoisonError};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_tests::checked;
use gpu_leak_tests::child::Run;

use super::allocators::{Block, POOL, SILENT, take};
use super::{GIB, assert_leaked, assert_verdict, bytes, report, run, run_suite};

/// Work that an unchecked test does while the body of a checked one waits for it.
#[derive(Default)]
pub(super) struct Neighbour {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: u32,
    done: u32,
    over: bool,
}

impl Neighbour {
    pub(super) const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                asked: 0,
                done: 0,
                over: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, condition);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Makes the other test do its work once, and waits until it has.
    ///
    /// # Panics
    ///
    /// Panics if the command line selects only the calling test, as the command after `again:` in
    /// its report does, because no test would answer.
    pub(super) fn ask(&self) {
        assert!(
            std::env::args().all(|argument| !argument.ends_with("::a_checked")),
            "this test waits for its neighbour: run its whole module, with `--ignored --test-threads=2`"
        );
        self.change(|state| state.asked += 1);
        self.wait_while(|state| state.done < state.asked && !state.over);
    }

    /// Does `work` at each request, until [`Self::dismiss`] is called.
    pub(super) fn serve(&self, mut work: impl FnMut()) {
        loop {
            let mut is_over = false;
            self.wait_while(|state| {
                is_over = state.over;
                state.done == state.asked && !state.over
            });
            if is_over {
                return;
            }
            work();
            self.change(|state| state.done += 1);
        }
    }

    /// Tells the other test that there is no more work.
    pub(super) fn dismiss(&self) {
        self.change(|state| state.over = true);
    }
}

/// Defines a module with three tests: a checked test `a_checked`, an unchecked test alongside it,
/// and a third test. Because libtest runs two tests at once, the third begins when the checked one
/// has ended. It dismisses the unchecked one.
macro_rules! suite {
    ($module:ident: $body:ident beside $work:ident) => {
        mod $module {
            use gpu_leak_check::gpu_leak_check;

            static NEIGHBOUR: super::Neighbour = super::Neighbour::new();

            #[gpu_leak_check]
            #[ignore = "one of a suite"]
            #[test]
            fn a_checked() {
                // Reports a block, because a check without any event has measured nothing.
                super::borrow();
                super::$body();
                NEIGHBOUR.ask();
            }

            #[test]
            #[ignore = "one of a suite"]
            fn b_neighbour() {
                NEIGHBOUR.serve(super::$work);
            }

            #[test]
            #[ignore = "one of a suite"]
            fn c_after_it() {
                NEIGHBOUR.dismiss();
            }
        }
    };
}

fn borrow() {
    drop(Block::new(64));
}

fn do_nothing() {}

fn lose_a_sum() {
    SILENT.take(GIB);
}

fn add_to_a_sum() {
    SILENT.take(4096);
}

fn move_a_sum() {
    SILENT.take(4096);
    SILENT.give_back(4096);
}

fn reserve() {
    POOL.reserve(GIB);
}

fn lose_a_block() {
    take(7);
}

fn lose_much() {
    add_to_a_sum();
    take(4096);
}

fn start_the_pool() {
    shared_pool::run(borrow);
}

fn lose_in_the_pool() {
    shared_pool::run(|| _ = take(4096));
}

fn run_beside(module: &str) -> checked::Checked {
    run_suite(&format!("neighbours::{module}"), 2)
}

/// Fails unless the checked test passed, even if `CI` is set, because a sum without an owner
/// decides nothing.
#[track_caller]
fn assert_shared(module: &str) {
    let plain = run_beside(module);
    let run = Run::of_all(&format!("neighbours::{module}"), 2);
    let in_ci = checked::finish(run.env("CI", "true"));
    for checked in [plain, in_ci] {
        let report = report(&checked, "a_checked");
        let output = checked.output();
        assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code.name(), "shared", "{output}");
        assert!(reason.what.contains("silent"), "{output}");
        assert!(checked.child.status.success(), "{output}");
    }
}

suite!(sum_beside_a_reporting_one: lose_a_sum beside borrow);

#[test]
fn a_sum_that_rose_while_a_neighbour_took_something_is_inconclusive() {
    assert_shared("sum_beside_a_reporting_one");
}

suite!(sum_beside_an_idle_one: lose_a_sum beside do_nothing);

#[test]
fn a_sum_that_rose_while_a_neighbour_may_have_taken_something_is_inconclusive() {
    assert_shared("sum_beside_an_idle_one");
}

suite!(sum_of_the_neighbour: do_nothing beside add_to_a_sum);

#[test]
fn unreported_allocations_of_a_neighbour_fail_nobody() {
    assert_shared("sum_of_the_neighbour");
}

suite!(sum_within_the_baseline: do_nothing beside move_a_sum);

#[test]
fn a_sum_that_did_not_rise_is_clean_whoever_moved_it() {
    let checked = run_beside("sum_within_the_baseline");
    checked.assert_clean();
}

suite!(reserve_of_the_neighbour: do_nothing beside reserve);

#[test]
fn a_reserve_that_a_neighbour_may_have_taken_is_a_note() {
    let checked = run_beside("reserve_of_the_neighbour");
    checked.assert_clean();
    assert!(notes(checked.report()).contains("reserved"), "{checked:#?}");
}

fn notes(report: &Report) -> String {
    report.notes.join("\n")
}

suite!(leak_beside_a_busy_neighbour: lose_a_block beside lose_much);

#[test]
fn a_leak_of_a_test_s_own_thread_is_a_leak_beside_any_neighbour() {
    let checked = run_beside("leak_beside_a_busy_neighbour");
    assert_leaked(&checked, "a_checked", 7);
}

/// A thread that several tests use. The first test that needs it starts it.
mod shared_pool {
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Mutex, OnceLock};
    use std::thread;

    type Job = (fn(), Sender<()>);

    pub(super) fn run(job: fn()) {
        static QUEUE: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
        let queue = QUEUE.get_or_init(|| {
            let (queue, jobs) = channel::<Job>();
            let worker = thread::Builder::new().name("shared-pool".to_owned());
            let worker = worker.spawn(move || {
                for (job, done) in jobs {
                    job();
                    done.send(()).expect("the one that asked waits");
                }
            });
            worker.expect("a thread");
            Mutex::new(queue)
        });
        let (done, is_done) = channel();
        let sent = queue.lock().expect("no panic").send((job, done));
        sent.expect("the thread lives");
        is_done.recv().expect("the job ends");
    }
}

suite!(pool_of_the_test: start_the_pool beside lose_in_the_pool);

#[test]
fn memory_of_a_shared_pool_is_reported_with_its_thread_and_advice() {
    let checked = run_beside("pool_of_the_test");
    let report = report(&checked, "a_checked");
    let output = checked.output();
    let findings = report.findings.iter();
    let reported: Vec<_> = findings
        .flat_map(|finding| finding.notes.iter().chain(&finding.foreign_thread))
        .chain(&report.notes)
        .map(String::as_str)
        .collect();
    let reported = reported.join("\n");
    assert!(reported.contains("shared-pool"), "{output}");
    assert!(checked.child.stderr.contains("warmup"), "{output}");
}

/// Tests run one at a time. The first is unchecked, and leaves a thread that continues to work.
mod after_an_unchecked_one {
    use std::thread;

    use gpu_leak_check::gpu_leak_check;

    use super::super::allocators::{Block, take};

    static THREAD: super::Neighbour = super::Neighbour::new();

    #[test]
    #[ignore = "one of a suite"]
    fn a_unchecked() {
        thread::spawn(|| THREAD.serve(|| _ = take(64)));
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn b_checked() {
        drop(Block::new(1));
        THREAD.ask();
    }
}

#[test]
fn allocations_of_a_thread_of_an_earlier_unchecked_test_fail_nobody() {
    let checked = run_suite("neighbours::after_an_unchecked_one", 1);
    checked.assert_clean();
    let unowned = "by threads outside any check";
    assert!(
        checked.child.stderr.contains(unowned),
        "{}",
        checked.output()
    );
}

/// Tests run one at a time. The first is unchecked, and leaves an idle thread.
mod sum_after_an_unchecked_one {
    use std::thread;

    use gpu_leak_check::gpu_leak_check;

    static THREAD: super::Neighbour = super::Neighbour::new();

    #[test]
    #[ignore = "one of a suite"]
    fn a_unchecked() {
        thread::spawn(|| THREAD.serve(super::do_nothing));
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn b_checked() {
        super::borrow();
        super::lose_a_sum();
    }
}

/// The test gets its own process, as the remedy for `shared` advises, because running one test at a
/// time may not suffice.
#[test]
fn a_sum_that_rose_beside_a_thread_of_an_earlier_test_is_judged_if_the_test_runs_alone() {
    let beside = run_suite("neighbours::sum_after_an_unchecked_one", 1);
    let report = report(&beside, "b_checked");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code.name(), "shared", "{}", beside.output());
    let alone = run("neighbours::sum_after_an_unchecked_one::b_checked");
    assert_leaked(&alone, "b_checked", GIB);
}

/// Tests run one at a time. The first is checked, and leaves a thread.
mod sum_after_a_checked_one {
    use std::time::Duration;
    use std::{fs, thread};

    use gpu_leak_check::gpu_leak_check;

    const NAME: &str = "left";
    static THREAD: super::Neighbour = super::Neighbour::new();

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn a_leaves_a_thread() {
        super::borrow();
        let left = thread::Builder::new().name(NAME.to_owned());
        let left = left.spawn(|| THREAD.serve(super::lose_a_sum));
        drop(left.expect("a thread"));
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn b_beside_its_work() {
        super::borrow();
        THREAD.ask();
    }

    /// On a busy machine, the thread may take a while to wait for its next request.
    #[test]
    #[ignore = "one of a suite"]
    fn c_until_it_waits() {
        let read = |thread: &fs::DirEntry, file| fs::read_to_string(thread.path().join(file));
        let threads = fs::read_dir("/proc/self/task").expect("threads").flatten();
        let mut named = threads.filter(|it| read(it, "comm").is_ok_and(|it| it.trim() == NAME));
        let left = named.next().expect("the thread");
        let mut waited = 0;
        while waited < 5 {
            let state = read(&left, "stat").expect("its state");
            waited = if state.contains(") S ") {
                waited + 1
            } else {
                0
            };
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn d_while_it_waits() {
        super::borrow();
        super::lose_a_sum();
    }
}

#[test]
fn a_thread_that_an_earlier_check_left_counts_only_if_it_has_run() {
    let suite = run_suite("neighbours::sum_after_a_checked_one", 1);
    let beside = report(&suite, "b_beside_its_work");
    let reason = beside.reason.as_ref().expect("a reason");
    assert_eq!(reason.code.name(), "shared", "{}", suite.output());
    assert_leaked(&suite, "d_while_it_waits", GIB);
}

/// A parallel check contains a block, during which another parallel check works.
mod block_beside_a_parallel_check {
    use gpu_leak_check::{Check, gpu_leak_check};

    use super::{add_to_a_sum, borrow};

    static NEIGHBOUR: super::Neighbour = super::Neighbour::new();

    #[gpu_leak_check(parallel)]
    #[ignore = "one of a suite"]
    #[test]
    fn a_checked() {
        Check::new("step").run(|| {
            borrow();
            NEIGHBOUR.ask();
        });
    }

    #[gpu_leak_check(parallel, confirm = false)]
    #[ignore = "one of a suite"]
    #[test]
    fn b_neighbour() {
        borrow();
        NEIGHBOUR.serve(add_to_a_sum);
    }

    #[test]
    #[ignore = "one of a suite"]
    fn c_after_it() {
        NEIGHBOUR.dismiss();
    }
}

#[test]
fn a_sum_that_rose_during_a_block_beside_a_parallel_check_is_inconclusive() {
    let checked = run_beside("block_beside_a_parallel_check");
    let output = checked.output();
    for check in ["step", "a_checked"] {
        let report = report(&checked, check);
        assert_eq!(
            report.status,
            CheckStatus::Inconclusive,
            "{check}\n{output}"
        );
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.code.name(), "shared", "{check}\n{output}");
    }
    assert!(checked.child.status.success(), "{output}");
}

/// An unchecked test works outside the scope that it has opened, alongside a checked test.
mod beside_an_open_scope {
    use gpu_leak_check::{Check, Scope};

    use super::{add_to_a_sum, borrow, lose_a_block};

    static IS_OPEN: super::Neighbour = super::Neighbour::new();
    static NEIGHBOUR: super::Neighbour = super::Neighbour::new();

    #[test]
    #[ignore = "one of a suite"]
    fn a_opens_a_scope() {
        let scope = Scope::open("lonely");
        IS_OPEN.serve(|| IS_OPEN.dismiss());
        NEIGHBOUR.serve(|| {
            lose_a_block();
            add_to_a_sum();
        });
        drop(scope.finish());
    }

    #[test]
    #[ignore = "one of a suite"]
    fn b_checked() {
        IS_OPEN.ask();
        Check::new("beside a scope").run(|| {
            borrow();
            NEIGHBOUR.ask();
        });
    }

    #[test]
    #[ignore = "one of a suite"]
    fn c_after_it() {
        NEIGHBOUR.dismiss();
    }
}

#[test]
fn allocations_outside_the_scope_that_a_test_opened_fail_nobody_else() {
    let checked = run_beside("beside_an_open_scope");
    let report = report(&checked, "beside a scope");
    let output = checked.output();
    assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
    assert!(checked.child.status.success(), "{output}");
}

/// A reserve is judged only in the runs in which no other test could have changed it.
mod reserves_beside_others_once {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use gpu_leak_check::{Scope, gpu_leak_check};

    use super::{borrow, reserve};

    static RUNS: AtomicU32 = AtomicU32::new(0);

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn a_checked() {
        borrow();
        reserve();
        if RUNS.fetch_add(1, Ordering::Relaxed) == 1 {
            let unrelated = Scope::none().in_scope(|| thread::spawn(|| ()));
            unrelated.join().expect("no panic");
        }
    }
}

#[test]
fn a_reserve_of_two_runs_is_retained_even_if_others_ran_beside_a_third() {
    let checked = run_beside("reserves_beside_others_once");
    let retained = CheckStatus::Found(FindingKind::Retained);
    let report = assert_verdict(&checked, "a_checked", retained);
    assert_eq!(bytes(report, retained), GIB, "{}", checked.output());
}

/// Another test leaves a block during the first run only. The second run is alone.
mod block_of_a_neighbour_in_the_first_run {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use gpu_leak_check::{Scope, gpu_leak_check};

    use super::{lose_a_block, take};

    static RUNS: AtomicU32 = AtomicU32::new(0);

    #[gpu_leak_check]
    #[ignore = "one of a suite"]
    #[test]
    fn a_checked() {
        lose_a_block();
        if RUNS.fetch_add(1, Ordering::Relaxed) == 0 {
            let unrelated = Scope::none().in_scope(|| thread::spawn(|| _ = take(4096)));
            unrelated.join().expect("no panic");
        }
    }
}

#[test]
fn a_block_of_a_neighbour_is_not_a_finding_after_the_neighbour_has_ended() {
    let checked = run_beside("block_of_a_neighbour_in_the_first_run");
    assert_leaked(&checked, "a_checked", 7);
    let report = report(&checked, "a_checked");
    let found: Vec<_> = report.findings.iter().map(|it| it.bytes).collect();
    assert_eq!(found, [7], "{}", checked.output());
}

/// A budget for a reserve, alongside an unchecked test that reserves more than the budget allows.
mod budget_of_a_shared_reserve {
    use gpu_leak_check::Check;

    use super::{borrow, reserve};

    static NEIGHBOUR: super::Neighbour = super::Neighbour::new();

    #[test]
    #[ignore = "one of a suite"]
    fn a_reserves() {
        NEIGHBOUR.serve(reserve);
    }

    #[test]
    #[ignore = "one of a suite"]
    fn b_checked() {
        let check = Check::new("within its budget").layer("allocator:pool");
        check.max_reserved("1 MiB").run(|| {
            borrow();
            NEIGHBOUR.ask();
        });
    }

    #[test]
    #[ignore = "one of a suite"]
    fn c_after_it() {
        NEIGHBOUR.dismiss();
    }
}

#[test]
fn a_reserve_that_a_neighbour_may_have_taken_exceeds_nobody_s_budget() {
    let checked = run_beside("budget_of_a_shared_reserve");
    let report = report(&checked, "within its budget");
    assert_eq!(report.status, CheckStatus::Clean, "{}", checked.output());
    assert!(notes(report).contains("above the budget of 1.00 MiB"));
}
