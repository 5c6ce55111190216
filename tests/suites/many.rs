//! Sixty-four parallel checks at once, each with its own threads. Half of them leak, according to a
//! plan that the parent knows. Every verdict is correct to the byte.

use std::env;
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_kernels::Tensor;
use gpu_leak_tests::checked::Checked;
use gpu_leak_tests::random::Random;

use super::{BLOCK, devices, report, run_warm, runs, take};

const SEED: &str = "SUITE_SEED";
const TESTS: u64 = 64;
const WORKERS: u64 = 3;

macro_rules! many {
    ($($name:ident)+) => {
        mod on_threads {
            use gpu_leak_check::gpu_leak_check;
            $(#[gpu_leak_check(parallel)]
            #[ignore = "half of them leak"]
            #[test]
            fn $name() {
                super::works_on_threads(super::number(stringify!($name)));
            })+
        }

        mod on_tokio {
            use gpu_leak_check::gpu_leak_check;
            $(#[gpu_leak_check(parallel)]
            #[ignore = "half of them leak"]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::works_on_tokio(super::number(stringify!($name))).await;
            })+
        }
    };
}

many!(
    t00 t01 t02 t03 t04 t05 t06 t07 t08 t09 t10 t11 t12 t13 t14 t15
    t16 t17 t18 t19 t20 t21 t22 t23 t24 t25 t26 t27 t28 t29 t30 t31
    t32 t33 t34 t35 t36 t37 t38 t39 t40 t41 t42 t43 t44 t45 t46 t47
    t48 t49 t50 t51 t52 t53 t54 t55 t56 t57 t58 t59 t60 t61 t62 t63
);

fn number(name: &str) -> u64 {
    name[1..].parse().expect("a number after the t")
}

/// Returns the allocations of a worker: for each, the number of blocks, and whether they stay.
fn plan(seed: u64, test: u64, worker: u64) -> Vec<(usize, bool)> {
    let mut random = Random(seed << 32 | test << 8 | worker);
    let leaks = test.is_multiple_of(2);
    let steps = 4 + random.below(5) as u64;
    (0..steps)
        .map(|step| {
            let blocks = 1 + random.below(64);
            // The first worker's first step always leaks, so that every test that should leak does
            // so.
            let stays = leaks && (worker + step == 0 || random.below(4) == 0);
            (blocks, stays)
        })
        .collect()
}

fn seed() -> u64 {
    let seed = env::var(SEED).expect("the parent's seed");
    seed.parse().expect("a number")
}

fn work(test: u64, worker: u64) {
    let mut held: Vec<Tensor> = Vec::new();
    for (blocks, stays) in plan(seed(), test, worker) {
        let tensor = take(blocks).expect("memory");
        if stays {
            std::mem::forget(tensor);
        } else {
            held.push(tensor);
        }
        if held.len() > 2 {
            held.remove(0);
        }
    }
}

fn works_on_threads(test: u64) {
    let detached = thread::spawn(move || work(test, 0));
    thread::scope(|scope| {
        for worker in 1..WORKERS {
            scope.spawn(move || work(test, worker));
        }
    });
    detached.join().expect("no panic");
}

async fn works_on_tokio(test: u64) {
    let tasks: Vec<_> = (0..WORKERS)
        .map(|worker| match worker {
            0 => tokio::task::spawn_blocking(move || work(test, worker)),
            _ => tokio::spawn(async move {
                tokio::task::yield_now().await;
                work(test, worker);
            }),
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// Returns the number of blocks that this test leaves in one run, and their bytes.
fn planted(seed: u64, test: u64) -> (u64, u64) {
    let steps = (0..WORKERS).flat_map(|worker| plan(seed, test, worker));
    let stays = steps.filter(|(_, stays)| *stays);
    stays.fold((0, 0), |(count, bytes), (blocks, _)| {
        (count + 1, bytes + (blocks * BLOCK) as u64)
    })
}

fn assert_every_verdict(checked: &Checked, seed: u64) {
    assert_eq!(checked.reports.len() as u64, TESTS, "{}", checked.output());
    for test in 0..TESTS {
        let report = report(checked, &format!("t{test:02}"));
        let leaked = report
            .findings
            .iter()
            .fold((0_u64, 0_u64), |(count, bytes), leak| {
                assert_eq!(leak.kind, FindingKind::Leaked, "{report:#?}");
                (count + leak.count, bytes + leak.bytes)
            });
        assert_eq!(leaked, planted(seed, test), "seed {seed}: {report:#?}");
        let verdict = match leaked {
            (0, 0) => CheckStatus::Clean,
            _ => CheckStatus::Found(FindingKind::Leaked),
        };
        assert_eq!(report.status, verdict, "seed {seed}: {report:#?}");
    }
    let unowned = "by threads outside any check";
    assert!(
        !checked.child.stderr.contains(unowned),
        "{}",
        checked.output()
    );
}

fn many_times(module: &str) {
    for seed in 1..=runs(10) {
        for device in devices() {
            let checked = run_warm(module, 64, device, &[(SEED, &seed.to_string())]);
            assert_every_verdict(&checked, seed);
        }
    }
}

#[test]
fn every_verdict_of_64_checks_at_once_is_right() {
    many_times("many::on_threads");
}

#[test]
fn every_verdict_of_64_checks_at_once_on_tokio_is_right() {
    many_times("many::on_tokio");
}
