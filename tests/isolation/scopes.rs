//! The owner of the work of threads, pools, runtimes and tasks, with and without `Scope`.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Instrument, Scope, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use rayon::prelude::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::{self, Runtime};

use super::{give_back, report, take};

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("isolation::scopes::{test}")).beside_others())
}

/// Fails unless the last check of the process found this many leaked bytes.
#[track_caller]
fn assert_leaks(test: &str, bytes: u64) {
    let checked = run(test);
    let output = checked.output();
    let report = checked.reports.last().expect("a report");
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    let found: u64 = report.findings.iter().map(|finding| finding.bytes).sum();
    assert_eq!(found, bytes, "{output}");
    assert!(!checked.child.status.success(), "{output}");
}

/// Fails unless every check passed and the summary counts this many bytes without an owner.
#[track_caller]
fn assert_owner_unknown(test: &str, bytes: u64) {
    let checked = run(test);
    checked.assert_clean();
    let reported = format!("{bytes} B by threads outside any check");
    assert!(
        checked.child.stderr.contains(&reported),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn scoped_threads() {
    thread::scope(|scope| {
        scope.spawn(|| take(1));
        scope.spawn(|| thread::scope(|inner| inner.spawn(|| take(2)).join()));
    });
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn a_detached_thread() {
    let (done, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        take(4);
        done.send(()).unwrap();
        loop {
            thread::park();
        }
    });
    ended.recv().unwrap();
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn a_pool_of_its_own() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| (0..8).into_par_iter().for_each(|_| _ = take(8)));
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn the_global_pool_that_it_starts() {
    (0..8).into_par_iter().for_each(|_| _ = take(16));
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[tokio::test]
async fn a_runtime_on_one_thread() {
    tokio::spawn(async { take(32) }).await.unwrap();
    tokio::task::spawn_blocking(|| take(32)).await.unwrap();
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_on_many_threads() {
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(async { take(64) })).collect();
    for task in tasks {
        task.await.unwrap();
    }
    tokio::task::spawn_blocking(|| take(64)).await.unwrap();
}

#[test]
fn memory_of_a_test_s_threads_pools_and_runtimes_belongs_to_the_test() {
    for (test, bytes) in [
        ("scoped_threads", 3),
        ("a_detached_thread", 4),
        ("a_pool_of_its_own", 64),
        ("the_global_pool_that_it_starts", 128),
        ("a_runtime_on_one_thread", 64),
        ("a_runtime_on_many_threads", 9 * 64),
    ] {
        assert_leaks(test, bytes);
    }
}

/// The pool of the whole process.
fn pool() -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPoolBuilder::new().num_threads(2).build().unwrap())
}

/// The runtime of the whole process.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap()
    })
}

/// Runs a check in a process where the pool and the runtime already exist.
fn with_old_pools(check: fn() -> ExitCode) {
    // The first check starts to intercept driver calls.
    has_nothing();
    pool().install(|| ());
    runtime().block_on(async { tokio::spawn(async {}).await.unwrap() });
    check();
}

#[gpu_leak_check]
#[ignore = "run by other tests"]
#[test]
fn has_nothing() {
    give_back(take(1));
}

#[gpu_leak_check(confirm = false)]
#[ignore = "needs the pool of its caller"]
#[test]
fn uses_an_old_pool() {
    pool().install(|| take(100));
}

#[gpu_leak_check(confirm = false)]
#[ignore = "needs the pool of its caller"]
#[test]
fn takes_its_scope_to_an_old_pool() {
    let scope = Scope::current();
    pool().install(|| scope.in_scope(|| take(200)));
    pool().install(|| {
        let entered = scope.enter();
        take(200);
        drop(entered);
        assert!(Scope::current().is_none(), "the pool's thread has left it");
    });
}

#[gpu_leak_check(confirm = false)]
#[ignore = "needs the runtime of its caller"]
#[test]
fn uses_an_old_runtime() {
    let task = runtime().spawn(async { take(300) });
    runtime().block_on(task).unwrap();
}

/// Allocates memory when it is polled, on whichever thread, and when it is dropped.
async fn takes_everywhere() {
    struct TakesAtItsEnd;
    impl Drop for TakesAtItsEnd {
        fn drop(&mut self) {
            take(1);
        }
    }
    let _taken_at_the_end = TakesAtItsEnd;
    for _ in 0..4 {
        take(100);
        tokio::task::yield_now().await;
    }
    std::future::pending::<()>().await;
}

#[gpu_leak_check(confirm = false)]
#[ignore = "needs the runtime of its caller"]
#[test]
fn takes_its_scope_to_an_old_runtime() {
    let task = runtime().spawn(takes_everywhere().instrument(Scope::current()));
    let other = runtime().spawn(async { take(1000) }.in_current_scope());
    runtime().block_on(async {
        other.await.unwrap();
        // Waits until the task has allocated everything. From then on the task waits forever.
        while gpu_leak_check::ledger::live()
            .snapshot(scope_of_this_test())
            .live
            < 5
        {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
}

fn scope_of_this_test() -> gpu_leak_check::ledger::ScopeId {
    let taken = gpu_leak_check::ledger::live().select(|record| record.made.bytes == 1000);
    taken.first().expect("the other task's").made.caller.scope
}

#[test]
#[ignore = "run in a process of its own"]
fn an_old_pool() {
    with_old_pools(uses_an_old_pool);
}

#[test]
#[ignore = "run in a process of its own"]
fn an_old_pool_with_a_scope() {
    with_old_pools(takes_its_scope_to_an_old_pool);
}

#[test]
#[ignore = "run in a process of its own"]
fn an_old_runtime() {
    with_old_pools(uses_an_old_runtime);
}

#[test]
#[ignore = "run in a process of its own"]
fn an_old_runtime_with_a_scope() {
    with_old_pools(takes_its_scope_to_an_old_runtime);
}

#[test]
fn memory_of_pools_older_than_the_test_has_unknown_owner() {
    assert_owner_unknown("an_old_pool", 100);
    assert_owner_unknown("an_old_runtime", 300);
}

#[test]
fn memory_of_older_pools_in_the_test_s_scope_belongs_to_the_test() {
    assert_leaks("an_old_pool_with_a_scope", 400);
    assert_leaks("an_old_runtime_with_a_scope", 1401);
}

#[gpu_leak_check(settle = "1ms")]
#[ignore = "run by other tests"]
#[test]
fn starts_the_pool() {
    pool().install(|| give_back(take(1)));
}

#[test]
#[ignore = "run in a process of its own"]
fn a_pool_that_outlives_its_scope() {
    starts_the_pool();
    uses_an_old_pool();
}

#[test]
fn memory_of_a_pool_after_the_test_that_started_it_has_unknown_owner() {
    assert_owner_unknown("a_pool_that_outlives_its_scope", 100);
}

#[gpu_leak_check]
#[ignore = "run by other tests"]
#[test]
fn has_scopes() {
    let clean = Scope::open("clean");
    clean.in_scope(|| give_back(take(1)));
    clean.finish().assert_clean();

    let line = line!() + 1;
    let leaky = Scope::open("leaky");
    let taken = leaky.in_scope(|| thread::scope(|scope| scope.spawn(|| take(7)).join().unwrap()));
    take_beside_it();
    let report = leaky.finish();
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!((report.findings.len(), report.findings[0].bytes), (1, 7));
    let name = "isolation::scopes::has_scopes: leaky";
    assert_eq!((report.test.as_str(), report.line), (name, line));
    let reported = std::panic::catch_unwind(|| report.assert_clean()).expect_err("a leak");
    let reported = reported.downcast_ref::<String>().expect("a message");
    assert!(
        reported.starts_with("gpu leak: 1 allocation, 7 B on isolation:0"),
        "{reported}"
    );
    give_back(taken);
}

fn take_beside_it() {
    give_back(take(3));
}

#[test]
fn a_scope_reports_what_its_own_work_left() {
    run("has_scopes").assert_clean();
}

#[ignore = "run by other tests"]
#[test]
fn asserts_what_it_cannot_see() {
    Scope::open("nothing").finish().assert_clean();
}

#[test]
fn a_scope_that_sees_nothing_fails_where_a_gpu_is_required() {
    if gpu_leak_check::gpu_available() {
        return;
    }
    let passes = |mode: &str| {
        let run = Run::of("isolation::scopes::asserts_what_it_cannot_see");
        run.env("GPU_LEAK_CHECK", mode).run().status.success()
    };
    assert!(passes("auto"));
    assert!(!passes("require"));
}

/// Works like a server that has one scope for each request.
#[gpu_leak_check(confirm = false)]
#[ignore = "run by other tests"]
#[test]
fn has_thousands_of_scopes_open() {
    let open: Vec<_> = (0..6_000).map(|_| Scope::open("one of many")).collect();
    for (number, scope) in open.into_iter().enumerate() {
        if number % 1_000 == 0 {
            scope.in_scope(|| give_back(take(1)));
        }
        scope.finish().assert_clean();
    }
}

#[test]
fn thousands_of_scopes_are_open_at_once() {
    let checked = run("has_thousands_of_scopes_open");
    assert!(checked.child.status.success(), "{}", checked.output());
}

#[gpu_leak_check(confirm = false)]
#[ignore = "leaks on purpose"]
#[test]
fn never_finishes_its_scopes() {
    Scope::open("dropped").in_scope(|| take(20));
    let open = Scope::open("open to the end");
    open.in_scope(|| take(2));
    std::mem::forget(open);
}

#[test]
fn memory_of_an_unfinished_scope_belongs_to_the_test() {
    assert_leaks("never_finishes_its_scopes", 22);
}

#[gpu_leak_check]
#[ignore = "run by other tests"]
#[test]
fn reports_a_scope_itself() {
    let scope = Scope::open("leaky");
    scope.in_scope(|| take(5));
    assert_eq!(
        scope.finish().status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}

#[test]
fn a_leak_that_a_scope_only_reported_counts_for_its_test() {
    let checked = run("reports_a_scope_itself");
    assert_eq!(
        report(&checked, "reports_a_scope_itself").status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}
