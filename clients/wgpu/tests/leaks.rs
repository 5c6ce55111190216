//! Work with wgpu leaves nothing on the device, and a planted leak is found.

use std::sync::OnceLock;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_client_support as support;
use gpu_leak_client_wgpu::{Gpu, add_one};

fn shared() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::open().expect("a Vulkan device"))
}

/// Checks that pass, each a hundred times.
mod works {
    use super::*;

    /// With a device of its own.
    #[gpu_leak_check]
    #[test]
    pub fn with_its_own_device() {
        let gpu = Gpu::open().expect("a Vulkan device");
        assert_eq!(add_one(&gpu, &[1, 2, 3]), [2, 3, 4]);
    }

    /// On a device that all tests share.
    #[gpu_leak_check]
    #[test]
    pub fn with_a_shared_device() {
        assert_eq!(add_one(shared(), &[1, 2, 3]), [2, 3, 4]);
    }

    /// Without waiting for the device at the end.
    #[gpu_leak_check]
    #[test]
    pub fn without_waiting() {
        let gpu = shared();
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 4096,
            usage: wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        gpu.queue.write_buffer(&buffer, 0, &[7; 4096]);
        gpu.queue.submit([]);
    }
}

/// What a test below runs in a process of its own.
mod planted {
    use super::*;

    #[test]
    #[ignore = "run in a process of its own"]
    fn a_hundred_times() {
        for _ in 0..100 {
            works::with_its_own_device();
            works::with_a_shared_device();
            works::without_waiting();
        }
    }

    fn forget(gpu: &Gpu) {
        let scores = gpu.device.create_buffer(&wgpu::BufferDescriptor { // leak: forgotten
            label: Some("scores"),
            size: 65_536,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        std::mem::forget(scores);
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
    #[ignore = "uses nothing that is heard"]
    #[test]
    fn another_backend() {
        Gpu::with(wgpu::Backends::NOOP);
    }
}

#[test]
fn work_is_clean_a_hundred_times() {
    let checked = support::run("planted::a_hundred_times");
    assert!(checked.passed, "{}", checked.story);
}

#[test]
fn a_forgotten_buffer_is_one_finding_with_its_line() {
    let checked = support::run("planted::a_forgotten_buffer");
    let [leak] = checked.leaks()[..] else {
        panic!("{}", checked.story);
    };
    assert_eq!((leak.resource, leak.count), (Some(Kind::Buffer), 1));
    assert_eq!(leak.bytes, 65_536);
    assert!(leak.site.user.is_some());
}

#[test]
fn another_backend_is_not_measured() {
    let checked = support::run("planted::another_backend");
    assert_eq!(checked.report.status, CheckStatus::NotMeasured);
}
