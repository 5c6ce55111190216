//! Allocators that report none of their blocks: only the figures of their probes can be judged.

#![expect(unsafe_code, reason = "allocates memory from the driver")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use cudarc::driver::{CudaContext, result};

use gpu_leak_check::ledger::{Kind, Layer};
use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::report::check_report::{CheckStatus, Confirmation, FindingKind, Outcome};
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_tests::checked;
use gpu_leak_tests::child::Run;

/// The bytes that [`Silent`] has handed out. It reserves nothing beyond them.
static HANDED_OUT: AtomicU64 = AtomicU64::new(0);

/// Whether [`Silent`] panics.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

struct Silent;

static PROBE: Silent = Silent;
gpu_leak_check::probe!(&PROBE);

impl Probe for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn places(&self) -> Vec<Place> {
        vec![Place::named("silent:0")]
    }

    fn allocated(&self, _: Place) -> u64 {
        assert!(!IS_BROKEN.load(Ordering::Relaxed), "the pool is corrupt");
        HANDED_OUT.load(Ordering::Relaxed)
    }

    fn reserved(&self, place: Place) -> u64 {
        self.allocated(place)
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

/// A probe with the name of a known allocator. It cannot list segments, and starts the thread on
/// which its allocator works.
struct CubeCl;

static CUBECL: CubeCl = CubeCl;
gpu_leak_check::probe!(&CUBECL);

impl Probe for CubeCl {
    fn name(&self) -> &'static str {
        "cubecl"
    }

    fn places(&self) -> Vec<Place> {
        Self::run(|| ());
        Vec::new()
    }

    fn allocated(&self, _: Place) -> u64 {
        0
    }

    fn reserved(&self, _: Place) -> u64 {
        0
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

/// A probe with the name of a known allocator. It lists one segment, which nothing else uses.
struct Rmm;

static RMM: Rmm = Rmm;
gpu_leak_check::probe!(&RMM);

impl Probe for Rmm {
    fn name(&self) -> &'static str {
        "rmm"
    }

    fn places(&self) -> Vec<Place> {
        vec![Place::cuda(0)]
    }

    fn allocated(&self, _: Place) -> u64 {
        0
    }

    fn reserved(&self, _: Place) -> u64 {
        1
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        vec![Segment {
            address: 1,
            bytes: 1,
        }]
    }

    fn empty_cache(&self, _: Place) {}
}

/// An allocator that does all work on the thread that [`CubeCl`] starts.
static REMOTE_BLOCKS: Source = Source::new("remote", &[]);

type Job = Box<dyn FnOnce() + Send>;

impl CubeCl {
    /// Runs `job` on the allocator's thread, and waits for it.
    fn run(job: impl FnOnce() + Send + 'static) {
        static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
        let jobs = JOBS.get_or_init(|| {
            let (jobs, queue) = mpsc::channel::<Job>();
            let worker = thread::Builder::new().name("remote".to_owned());
            let worker = worker.spawn(move || queue.into_iter().for_each(|job| job()));
            worker.expect("a thread");
            jobs
        });
        let (done, end) = mpsc::channel();
        let job = move || {
            job();
            done.send(()).expect("the caller waits");
        };
        jobs.send(Box::new(job)).expect("a running thread");
        end.recv().expect("the job has run");
    }
}

/// Functions with the names of those in cubecl's allocator.
mod cubecl_runtime {
    pub(super) mod memory_management {
        #[inline(never)]
        pub(crate) fn reserve() {
            super::super::allocate();
            // Prevents the compiler from turning the call into a jump, and from merging this
            // function with that of the other allocator.
            std::hint::black_box("cubecl");
        }
    }
}

/// Functions with the names of those in RMM.
mod rmm {
    pub(super) mod pool_memory_resource {
        #[inline(never)]
        pub(crate) fn reserve() {
            super::super::allocate();
            std::hint::black_box("rmm");
        }
    }
}

/// Allocates 2 MiB from the driver, and never frees them.
fn allocate() {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("a device"));
    context.bind_to_thread().expect("its context");
    // SAFETY: the context is current on this thread.
    unsafe { result::malloc_sync(2 << 20) }.expect("memory");
}

fn take(bytes: u64) {
    HANDED_OUT.fetch_add(bytes, Ordering::Relaxed);
}

fn give_back(bytes: u64) {
    HANDED_OUT.fetch_sub(bytes, Ordering::Relaxed);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block() {
    take(4096);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block_of_its_first_run() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| take(4096));
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn gives_back_what_it_takes() {
    take(4096);
    give_back(4096);
}

#[test]
fn more_than_before_is_a_leak_of_its_layer() {
    let checked = checked::run("keeps_a_block");
    let (report, output) = (checked.report(), checked.output());
    assert!(!checked.child.status.success(), "{output}");
    // The reserve that the block pins is not a separate finding.
    let [leak] = &report.findings[..] else {
        panic!("{} findings\n{output}", report.findings.len());
    };
    assert_eq!(leak.kind, FindingKind::Leaked, "{output}");
    assert_eq!(
        (leak.resource, leak.bytes),
        (Some(Kind::Block), 4096),
        "{output}"
    );
    assert_eq!(leak.layer, Layer::allocator("silent"), "{output}");
    let by_second_run = Some(Confirmation::by_second_run(1, 4096));
    assert_eq!(leak.confirmed, by_second_run, "{output}");
}

#[test]
fn memory_that_only_the_first_run_kept_is_first_use() {
    let checked = checked::run("keeps_a_block_of_its_first_run");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::FirstUse)
    );
}

/// A probe needs no driver.
#[test]
fn memory_that_only_the_first_run_kept_is_first_use_without_a_gpu() {
    let run = Run::of("keeps_a_block_of_its_first_run").env("GPU_LEAK_CHECK_FIRST_USE", "fail");
    let checked = checked::finish(run);
    assert!(!checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::FirstUse)
    );
}

#[test]
fn as_much_as_before_is_clean() {
    checked::run("gives_back_what_it_takes").assert_clean();
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block_each_round() {
    take(4096);
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "run in a process of its own"]
#[test]
fn fills_a_cache_in_rounds() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| take(4096));
}

#[test]
fn the_same_loss_in_every_round_grows() {
    let checked = checked::run("keeps_a_block_each_round");
    let (report, output) = (checked.report(), checked.output());
    assert!(!checked.child.status.success(), "{output}");
    let [grown] = &report.findings[..] else {
        panic!("{} findings\n{output}", report.findings.len());
    };
    assert_eq!((grown.kind, grown.bytes), (FindingKind::Grew, 3 * 4096));
    let bytes: Vec<_> = grown.rounds.iter().map(|left| left.bytes).collect();
    assert_eq!(bytes, [4096, 2 * 4096, 3 * 4096], "{output}");
    let text = "each of 3 rounds left 4.00 KiB more";
    assert!(checked.child.stderr.contains(text), "{output}");
}

#[test]
fn memory_that_is_kept_once_does_not_grow_in_rounds() {
    checked::run("fills_a_cache_in_rounds").assert_clean();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_segment_of_cubecl() {
    cubecl_runtime::memory_management::reserve();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_segment_that_rmm_forgot() {
    rmm::pool_memory_resource::reserve();
}

#[test]
fn memory_of_a_known_allocator_is_judged_by_its_probe() {
    checked::run("keeps_a_segment_of_cubecl").assert_clean();
}

#[test]
fn memory_that_a_known_allocator_s_probe_does_not_report_is_a_leak() {
    let checked = checked::run("keeps_a_segment_that_rmm_forgot");
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    assert_eq!(report.findings[0].resource, Some(Kind::Linear), "{output}");
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn breaks_its_probe() {
    IS_BROKEN.store(true, Ordering::Relaxed);
}

#[test]
fn a_probe_that_panics_fails_the_check_that_reads_it() {
    let checked = checked::run("breaks_its_probe");
    let (report, output) = (checked.report(), checked.output());
    assert!(!checked.child.status.success(), "{output}");
    assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
    assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert!(reason.what.contains("a probe"), "{}", reason.what);
    for other in ["future", "warm-up"] {
        assert!(!reason.what.contains(other), "{}", reason.what);
    }
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn works_on_the_thread_of_a_probe() {
    CubeCl::run(|| {
        REMOTE_BLOCKS.allocated(Place::named("remote:0"), 1 << 40, 8);
        REMOTE_BLOCKS.freed(1 << 40);
    });
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_a_block_on_the_thread_of_a_probe() {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
    CubeCl::run(|| {
        let address = NEXT.fetch_add(8, Ordering::Relaxed);
        REMOTE_BLOCKS.allocated(Place::named("remote:0"), address, 8);
    });
}

/// The thread works for the checked test. It is not an unchecked test.
#[test]
fn the_thread_of_a_probe_is_not_an_unchecked_test() {
    let checked = checked::run("works_on_the_thread_of_a_probe");
    checked.assert_clean();
    assert!(
        !checked.output().contains("unchecked"),
        "{}",
        checked.output()
    );
    let checked = checked::run("keeps_a_block_on_the_thread_of_a_probe");
    let (report, output) = (checked.report(), checked.output());
    let leaks: Vec<_> = report
        .findings
        .iter()
        .map(|it| (it.kind, it.count, it.bytes))
        .collect();
    assert_eq!(leaks, [(FindingKind::Leaked, 1, 8)], "{output}");
    assert!(!output.contains("unchecked"), "{output}");
}

/// Two tests that libtest starts at once. Each keeps a block, and its thread takes a moment to end.
mod turns {
    use std::thread;
    use std::time::Duration;

    use super::{gpu_leak_check, take};

    struct EndsSlowly;

    impl Drop for EndsSlowly {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(50));
        }
    }

    thread_local! {
        static OF_THREAD: EndsSlowly = const { EndsSlowly };
    }

    fn keep_a_block() {
        OF_THREAD.with(|_| take(4096));
    }

    #[gpu_leak_check]
    #[ignore = "run in a process of its own"]
    #[test]
    fn one() {
        keep_a_block();
    }

    #[gpu_leak_check]
    #[ignore = "run in a process of its own"]
    #[test]
    fn other() {
        keep_a_block();
    }
}

/// What a probe reads has no owner, so it can only be judged while no other test can be active.
#[test]
fn a_test_is_not_beside_the_one_before_it() {
    let checked = checked::finish(Run::of_all("turns", 2));
    assert_eq!(checked.reports.len(), 2, "{}", checked.output());
    for report in &checked.reports {
        let leaked = CheckStatus::Found(FindingKind::Leaked);
        assert_eq!(report.status, leaked, "{}", checked.output());
    }
}
