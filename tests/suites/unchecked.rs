//! Ten unchecked tests that allocate continuously, alongside ten checked ones.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_kernels::Tensor;

use super::{BLOCK, devices, report, run_warm, runs, take};

/// The number of times that the bodies of checked tests have run.
static BODIES: AtomicU64 = AtomicU64::new(0);
/// The number of runs of all checked tests. A second run confirms each leak.
const ALL_BODIES: u64 = 2 * LEAKING.len() as u64 + CLEAN.len() as u64;
/// The maximum time to wait. After it, the checked tests must have failed.
const AT_MOST: Duration = Duration::from_secs(60);

const CLEAN: [&str; 3] = ["takes_and_frees", "frees_on_a_thread", "uses_a_pool"];
const LEAKING: [&str; 7] = [
    "leaks_on_an_unnamed_thread",
    "leaks_on_a_named_thread",
    "leaks_on_a_scoped_thread",
    "leaks_on_a_pool_of_its_own",
    "leaks_on_the_global_pool",
    "leaks_in_a_task",
    "leaks_in_a_blocking_task",
];

/// Allocates for as long as checked tests run, and also leaves something.
fn allocates() {
    static KEPT: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());
    let start = Instant::now();
    for turn in 0.. {
        if BODIES.load(Ordering::Relaxed) >= ALL_BODIES || start.elapsed() > AT_MOST {
            return;
        }
        let taken = take(1 + turn % 9).expect("memory");
        if turn % 64 == 0 {
            KEPT.lock().unwrap().push(taken);
        }
        thread::yield_now();
    }
}

/// Leaves a block of 3 KiB, a size that no other call site leaves.
fn leak() {
    std::mem::forget(take(6).expect("memory"));
}

macro_rules! unchecked {
    ($($name:ident)+) => {
        $(#[test]
        #[ignore = "runs until the checked tests have run"]
        fn $name() {
            super::allocates();
        })+
    };
}

mod suite {
    use super::{Ordering, gpu_leak_check, leak, take, thread};

    unchecked!(u0 u1 u2 u3 u4 u5 u6 u7 u8 u9);

    /// Counts a run of a body when it is dropped, even if the body ends early.
    struct Body;

    impl Drop for Body {
        fn drop(&mut self) {
            super::BODIES.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[gpu_leak_check]
    #[ignore = "needs the tests next to it"]
    #[test]
    fn takes_and_frees() {
        let _body = Body;
        drop(take(7).unwrap());
    }

    #[gpu_leak_check]
    #[ignore = "needs the tests next to it"]
    #[test]
    fn frees_on_a_thread() {
        let _body = Body;
        let taken = take(7).unwrap();
        thread::spawn(move || drop(taken)).join().unwrap();
    }

    #[gpu_leak_check]
    #[ignore = "needs the tests next to it"]
    #[test]
    fn uses_a_pool() {
        let _body = Body;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.unwrap().broadcast(|_| drop(take(7).unwrap()));
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks_on_an_unnamed_thread() {
        let _body = Body;
        thread::spawn(leak).join().unwrap();
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks_on_a_named_thread() {
        let _body = Body;
        let thread = thread::Builder::new().name("loader".to_owned());
        thread.spawn(leak).unwrap().join().unwrap();
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks_on_a_scoped_thread() {
        let _body = Body;
        thread::scope(|scope| {
            scope.spawn(leak);
        });
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks_on_a_pool_of_its_own() {
        let _body = Body;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.unwrap().install(leak);
    }

    /// The first user of the pool starts its threads, which then belong to that user.
    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn leaks_on_the_global_pool() {
        let _body = Body;
        rayon::scope(|scope| scope.spawn(|_| leak()));
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn leaks_in_a_task() {
        let _body = Body;
        tokio::spawn(async { leak() }).await.unwrap();
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn leaks_in_a_blocking_task() {
        let _body = Body;
        tokio::task::spawn_blocking(leak).await.unwrap();
    }
}

#[test]
fn unchecked_tests_fail_no_check_and_hide_nothing() {
    for _ in 0..runs(4) {
        for device in devices() {
            let checked = run_warm("unchecked::suite", 20, device, &[]);
            let output = checked.output();
            assert_eq!(
                checked.reports.len(),
                CLEAN.len() + LEAKING.len(),
                "{output}"
            );
            for test in CLEAN {
                let report = report(&checked, test);
                assert_eq!(report.status, CheckStatus::Clean, "{report:#?}");
            }
            for test in LEAKING {
                let report = report(&checked, test);
                let [leak] = &report.findings[..] else {
                    panic!("{report:#?}");
                };
                let found = (leak.kind, leak.count, leak.bytes);
                let planted = (FindingKind::Leaked, 1, 6 * BLOCK as u64);
                assert_eq!(found, planted, "{report:#?}");
            }
            let unowned = "by threads outside any check";
            assert!(checked.child.stderr.contains(unowned), "{output}");
        }
    }
}
