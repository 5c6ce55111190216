//! Threads that race in the ledger.

use std::sync::Barrier;
use std::thread;

use cudarc::driver::CudaContext;
use cudarc::driver::result::stream;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};

use super::live::{Recorded, assert_judged_alike};

const THREADS: usize = 8;
const ROUNDS: usize = 200;

#[test]
fn a_replay_judges_eight_racing_threads_alike() {
    let recorded = Recorded::run("recorded::threads::race");
    assert_judged_alike(&recorded);
    let report = recorded.checked.report();
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
    let kept: u64 = report.findings.iter().map(|finding| finding.count).sum();
    assert_eq!(kept, THREADS as u64);
}

/// Uses streams, because another thread may get the handle of a destroyed stream immediately.
#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn race() {
    let context = CudaContext::new(0).expect("device 0 has a context");
    std::mem::forget(context.clone());
    let start = Barrier::new(THREADS);
    let one_thread = || {
        context.bind_to_thread().expect("a live context");
        start.wait();
        for _ in 0..ROUNDS {
            destroy(create());
        }
        create();
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(one_thread);
        }
    });
}

fn create() -> cudarc::driver::sys::CUstream {
    stream::create(stream::StreamKind::NonBlocking).expect("a stream")
}

#[expect(unsafe_code, reason = "calls the driver")]
fn destroy(taken: cudarc::driver::sys::CUstream) {
    // SAFETY: the caller created the stream and no longer uses it.
    unsafe { stream::destroy(taken) }.expect("a live stream");
}
