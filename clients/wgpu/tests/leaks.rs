//! Work with wgpu leaves nothing on the device, and a planted leak is found.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{gpu_leak_check, settle_with};
use gpu_leak_client_support as support;
use gpu_leak_client_wgpu::{Gpu, add_one};

const SOURCE: &str = include_str!("leaks.rs");

fn shared() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::open().expect("a Vulkan device"))
}

fn buffer(gpu: &Gpu) -> wgpu::Buffer {
    gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 4096,
        usage: wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// Tests that pass. Each is run a hundred times.
mod works {
    use super::*;

    #[gpu_leak_check]
    #[test]
    pub fn with_its_own_device() {
        let gpu = Gpu::open().expect("a Vulkan device");
        assert_eq!(add_one(&gpu, &[1, 2, 3]), [2, 3, 4]);
    }

    #[gpu_leak_check]
    #[test]
    pub fn with_a_shared_device() {
        assert_eq!(add_one(shared(), &[1, 2, 3]), [2, 3, 4]);
    }

    /// Resources that the queue has used are freed when the device is polled next, which happens
    /// here in the next run or test.
    #[gpu_leak_check]
    #[test]
    pub fn without_waiting() {
        write();
    }

    #[gpu_leak_check]
    #[test]
    pub fn that_the_check_waits_for() {
        settle_with(|| shared().wait());
        write();
    }

    #[gpu_leak_check]
    #[test]
    pub fn on_several_threads() {
        thread::scope(|scope| {
            for first in 0..4 {
                scope.spawn(move || add_one(shared(), &[first, 5]));
            }
        });
    }
}

fn write() {
    let gpu = shared();
    gpu.queue.write_buffer(&buffer(gpu), 0, &[7; 4096]);
    gpu.queue.submit([]);
}

/// Checked tests. Each is run in a separate process by a test below.
mod planted {
    use super::*;

    #[test]
    #[ignore = "run in a separate process"]
    fn a_hundred_times_alongside_busy_threads() {
        support::start_busy_threads();
        for _ in 0..100 {
            works::with_its_own_device();
            works::with_a_shared_device();
            works::without_waiting();
            works::that_the_check_waits_for();
            works::on_several_threads();
        }
    }

    fn forget(gpu: &Gpu) {
        let scores = wgpu::BufferDescriptor {
            label: Some("scores"),
            size: 65_536,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        };
        std::mem::forget(gpu.device.create_buffer(&scores)); // leak: forgotten
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_buffer() {
        forget(shared());
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_buffer_with_its_device() {
        forget(&Gpu::open().expect("a Vulkan device"));
    }

    #[gpu_leak_check]
    #[ignore = "may leak"]
    #[test]
    fn a_write_that_is_never_submitted() {
        let gpu = Gpu::open().expect("a Vulkan device");
        gpu.queue.write_buffer(&buffer(&gpu), 0, &[7; 4096]);
    }

    #[gpu_leak_check]
    #[ignore = "uses no API that is watched"]
    #[test]
    fn another_backend() {
        Gpu::with(wgpu::Backends::NOOP);
    }
}

#[test]
fn work_is_clean_a_hundred_times_alongside_busy_threads() {
    let (passed, reports, output) =
        support::run_all("planted::a_hundred_times_alongside_busy_threads");
    assert!(passed, "{output}");
    assert_eq!(reports.len(), 500, "{output}");
    let mut statuses: BTreeMap<_, BTreeMap<CheckStatus, usize>> = BTreeMap::new();
    for report in &reports {
        let of_test = statuses.entry(report.test.as_str()).or_default();
        *of_test.entry(report.status).or_default() += 1;
    }
    println!("{statuses:#?}");
    let clean = BTreeMap::from([(CheckStatus::Clean, 100)]);
    assert_eq!(statuses["works::with_its_own_device"], clean, "{output}");
    // On a shared device, resources that the queue has not freed yet are `deferred`, and those that
    // it recycles are `allowed`. Neither fails a test.
    let fails = reports.iter().find(|report| report.status.is_failure());
    assert!(fails.is_none(), "{output}");
    let settled = &statuses["works::that_the_check_waits_for"];
    let deferred = settled.get(&CheckStatus::Found(FindingKind::Deferred));
    assert_eq!(deferred, None, "{output}");
}

#[test]
fn a_forgotten_buffer_is_one_finding_with_its_line() {
    for test in ["a_forgotten_buffer", "a_forgotten_buffer_with_its_device"] {
        let checked = support::run(&format!("planted::{test}"));
        let [leak] = checked.leaks()[..] else {
            panic!("{}", checked.output);
        };
        assert_eq!((leak.resource, leak.count), (Some(Kind::Buffer), 1));
        assert_eq!(leak.bytes, 65_536);
        assert!(
            leak.notes.iter().any(|note| note == "named \"scores\""),
            "{}",
            checked.output
        );
        let line = support::line_of(SOURCE, "forgotten");
        assert_eq!(support::blamed(leak), Some(("tests/leaks.rs", line)));
    }
}

#[test]
fn the_noop_backend_is_not_measured() {
    // With a CUDA device, this test would be `clean`, like any test that does not use the GPU.
    let without_cuda = [("CUDA_VISIBLE_DEVICES", "")];
    let checked = support::run_with("planted::another_backend", &without_cuda);
    assert_eq!(checked.report.status, CheckStatus::NotMeasured);
}
