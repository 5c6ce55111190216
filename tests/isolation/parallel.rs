//! `parallel`: checks that share a process and are judged by ownership alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{as_libtest, give_back, report, take};

fn beside_others(test: &str) -> Checked {
    checked::finish(Run::of(&format!("isolation::parallel::{test}")).beside_others())
}

static BOTH_TOOK: Barrier = Barrier::new(2);
static BOTH_ENDED: Barrier = Barrier::new(2);

#[gpu_leak_check(parallel, confirm = false)]
#[ignore = "needs the test next to it"]
#[test]
fn leaks() {
    take(64);
    BOTH_TOOK.wait();
    BOTH_ENDED.wait();
}

#[gpu_leak_check(parallel)]
#[ignore = "needs the test next to it"]
#[test]
fn is_clean() {
    let taken = take(100);
    BOTH_TOOK.wait();
    thread::scope(|scope| scope.spawn(|| give_back(taken)).join()).unwrap();
    BOTH_ENDED.wait();
}

#[test]
#[ignore = "run in a process of its own"]
fn two_at_once() {
    let leaked = thread::scope(|scope| {
        let one = as_libtest(scope, module_path!(), "leaks", leaks);
        let other = as_libtest(scope, module_path!(), "is_clean", is_clean);
        other.join().expect("the clean one passes");
        one.join()
    });
    assert!(leaked.is_err(), "the leak fails its test");
}

#[test]
fn two_checks_at_once_each_report_only_their_own_leaks() {
    let checked = beside_others("two_at_once");
    assert!(checked.child.status.success(), "{}", checked.output());
    let leaked = report(&checked, "::leaks");
    assert_eq!(
        leaked.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
    assert_eq!((leaked.findings.len(), leaked.findings[0].bytes), (1, 64));
    assert!(
        leaked
            .notes
            .iter()
            .any(|note| note.contains("other checks ran at the same time")),
        "{}",
        checked.output()
    );
    assert_eq!(
        report(&checked, "::is_clean").status,
        CheckStatus::Clean,
        "{}",
        checked.output()
    );
}

static PARALLEL: AtomicUsize = AtomicUsize::new(0);
static EXCLUSIVE: AtomicUsize = AtomicUsize::new(0);

#[gpu_leak_check(parallel)]
#[ignore = "needs the tests next to it"]
#[test]
fn shares() {
    PARALLEL.fetch_add(1, Ordering::SeqCst);
    assert_eq!(EXCLUSIVE.load(Ordering::SeqCst), 0);
    give_back(take(8));
    thread::yield_now();
    assert_eq!(EXCLUSIVE.load(Ordering::SeqCst), 0);
    PARALLEL.fetch_sub(1, Ordering::SeqCst);
}

#[gpu_leak_check]
#[ignore = "needs the tests next to it"]
#[test]
fn shares_with_none() {
    assert_eq!(EXCLUSIVE.fetch_add(1, Ordering::SeqCst), 0);
    assert_eq!(PARALLEL.load(Ordering::SeqCst), 0);
    give_back(take(8));
    thread::yield_now();
    assert_eq!(PARALLEL.load(Ordering::SeqCst), 0);
    EXCLUSIVE.fetch_sub(1, Ordering::SeqCst);
}

#[test]
#[ignore = "run in a process of its own"]
fn many_of_both_sorts() {
    thread::scope(|scope| {
        for _ in 0..8 {
            as_libtest(scope, module_path!(), "shares", shares);
            as_libtest(scope, module_path!(), "shares_with_none", shares_with_none);
        }
    });
}

#[test]
fn exclusive_and_parallel_checks_never_overlap() {
    let checked = beside_others("many_of_both_sorts");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 16, "{}", checked.output());
}

/// The requests to a thread that existed before every check and works for any other thread.
static REQUESTS: Mutex<Option<mpsc::Sender<mpsc::Sender<()>>>> = Mutex::new(None);

fn start_an_unchecked_worker() {
    let (requests, inbox) = mpsc::channel::<mpsc::Sender<()>>();
    thread::spawn(move || {
        for done in inbox {
            take(1000);
            done.send(()).unwrap();
        }
    });
    *REQUESTS.lock().unwrap() = Some(requests);
}

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn runs_beside_unchecked_work() {
    give_back(take(8));
    let (done, answer) = mpsc::channel();
    let requests = REQUESTS.lock().unwrap().clone().unwrap();
    requests.send(done).unwrap();
    answer.recv().unwrap();
}

#[test]
#[ignore = "run in a process of its own"]
fn has_unchecked_work_beside_it() {
    start_an_unchecked_worker();
    runs_beside_unchecked_work();
}

#[test]
fn unchecked_work_meanwhile_is_counted_in_the_summary_and_fails_nothing() {
    let checked = beside_others("has_unchecked_work_beside_it");
    checked.assert_clean();
    let reported = "1 allocation, 1,000 B by threads outside any check";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
}

/// The requests to a pool that the first run of a body starts and later runs use.
static POOL: Mutex<Option<mpsc::Sender<mpsc::Sender<()>>>> = Mutex::new(None);

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_on_a_thread_of_its_first_run() {
    let pool = POOL
        .lock()
        .unwrap()
        .get_or_insert_with(|| {
            let (pool, inbox) = mpsc::channel::<mpsc::Sender<()>>();
            thread::spawn(move || {
                for done in inbox {
                    take(24);
                    done.send(()).unwrap();
                }
            });
            pool
        })
        .clone();
    let (done, answer) = mpsc::channel();
    pool.send(done).unwrap();
    answer.recv().unwrap();
}

#[test]
fn a_leak_on_a_thread_that_the_first_run_started_repeats_in_the_second() {
    let checked = beside_others("leaks_on_a_thread_of_its_first_run");
    assert!(!checked.child.status.success(), "{}", checked.output());
    let finding = &checked.report().findings[0];
    assert_eq!(
        (finding.kind, finding.bytes),
        (FindingKind::Leaked, 24),
        "{}",
        checked.output()
    );
    assert!(finding.confirmed.is_some(), "{}", checked.output());
}

#[gpu_leak_check(parallel)]
#[ignore = "leaks on purpose"]
#[test]
fn calls_a_check_that_leaks() {
    let reported = std::panic::catch_unwind(leaks_alone);
    assert!(reported.is_err());
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_alone() {
    take(40);
}

#[test]
fn leaks_of_an_inner_check_count_for_the_outer_if_its_panic_was_caught() {
    let checked = beside_others("calls_a_check_that_leaks");
    assert_eq!(
        report(&checked, "::leaks_alone").status,
        CheckStatus::Found(FindingKind::Leaked)
    );
    let outer = report(&checked, "::calls_a_check_that_leaks");
    let leaked = CheckStatus::Found(FindingKind::Leaked);
    assert_eq!(outer.status, leaked, "{}", checked.output());
    let summary = "by threads outside any check";
    assert!(
        !checked.child.stderr.contains(summary),
        "{}",
        checked.output()
    );
}

/// Every second check leaks, on its own threads.
#[gpu_leak_check(parallel, confirm = false)]
#[ignore = "needs the tests next to it"]
#[test]
fn one_of_many() {
    let number = NEXT.fetch_add(1, Ordering::SeqCst) as u64;
    ALL_ARE_IN.wait();
    let mut kept = 0;
    thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                for _ in 0..20 {
                    give_back(take(1000 + number));
                }
                if number.is_multiple_of(2) {
                    take(1 + number);
                }
                worker
            });
        }
        kept = take(5000);
    });
    give_back(kept);
}

const MANY: usize = 64;
static NEXT: AtomicUsize = AtomicUsize::new(0);
static ALL_ARE_IN: Barrier = Barrier::new(MANY);

#[test]
#[ignore = "run in a process of its own"]
fn many_at_once() {
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (0..MANY)
            .map(|_| as_libtest(scope, module_path!(), "one_of_many", one_of_many))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.filter(Result::is_err).count()
    });
    assert_eq!(failed, MANY / 2, "every other one leaks");
}

#[test]
fn many_checks_at_once_each_report_only_their_own_leaks() {
    let checked = beside_others("many_at_once");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(checked.reports.len(), MANY, "{}", checked.output());
    let mut leaked: Vec<(u64, u64)> = Vec::new();
    for report in &checked.reports {
        match &report.findings[..] {
            [] => assert_eq!(report.status, CheckStatus::Clean, "{}", checked.output()),
            [finding] => leaked.push((finding.count, finding.bytes)),
            _ => panic!("{}", checked.output()),
        }
    }
    leaked.sort_unstable();
    let planted = (0..MANY as u64)
        .step_by(2)
        .map(|number| (4, 4 * (1 + number)));
    assert_eq!(leaked, planted.collect::<Vec<_>>());
}

#[gpu_leak_check]
#[ignore = "needs the tests next to it"]
#[test]
fn takes_turns_beside_unchecked_work() {
    give_back(thread::scope(|scope| scope.spawn(|| take(10)).join()).unwrap());
    thread::yield_now();
}

#[gpu_leak_check(parallel)]
#[ignore = "needs the tests next to it"]
#[test]
fn shares_beside_unchecked_work() {
    give_back(thread::scope(|scope| scope.spawn(|| take(20)).join()).unwrap());
    thread::yield_now();
}

/// Ten threads allocate and lose memory continuously, as unchecked tests may, while ten checks run.
#[test]
#[ignore = "run in a process of its own"]
fn checked_and_unchecked_work_side_by_side() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                while DONE.load(Ordering::Relaxed) < 10 {
                    give_back(take(1));
                    take(1);
                    thread::yield_now();
                }
            });
        }
        for number in 0..10 {
            let exclusive = number % 2 == 0;
            let name = if exclusive {
                "takes_turns_beside_unchecked_work"
            } else {
                "shares_beside_unchecked_work"
            };
            as_libtest(scope, module_path!(), name, move || {
                let ended = if exclusive {
                    takes_turns_beside_unchecked_work()
                } else {
                    shares_beside_unchecked_work()
                };
                DONE.fetch_add(1, Ordering::Relaxed);
                assert_eq!(ended, std::process::ExitCode::SUCCESS);
            });
        }
    });
}

#[test]
fn unchecked_work_all_the_time_is_blamed_on_no_check() {
    let checked = beside_others("checked_and_unchecked_work_side_by_side");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 10, "{}", checked.output());
}
