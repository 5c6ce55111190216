//! Work with vulkano leaves nothing on the device, and planted leaks are found.

use std::sync::OnceLock;
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_client_support as support;
use gpu_leak_client_vulkano::{Gpu, add_one, add_one_with, pipeline};
use vulkano::buffer::{Buffer, BufferCreateInfo, BufferUsage, Subbuffer};
use vulkano::pipeline::Pipeline as _;

const SOURCE: &str = include_str!("leaks.rs");

fn shared() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| Gpu::open().expect("a Vulkan device"))
}

/// Tests that pass. Each is run a hundred times.
mod works {
    use super::*;

    #[gpu_leak_check]
    #[test]
    pub fn with_its_own_device() {
        let gpu = Gpu::open().expect("a Vulkan device");
        assert_eq!(add_one(&gpu, &[1, 2, 3]).unwrap(), [2, 3, 4]);
    }

    #[gpu_leak_check]
    #[test]
    pub fn with_a_shared_device() {
        assert_eq!(add_one(shared(), &[1, 2, 3]).unwrap(), [2, 3, 4]);
    }

    /// The allocators keep the pools of each thread for later threads.
    #[gpu_leak_check]
    #[test]
    pub fn on_several_threads() {
        thread::scope(|scope| {
            for first in 0..4 {
                scope.spawn(move || add_one(shared(), &[first, 5]).unwrap());
            }
        });
    }

    /// The allocator of descriptor sets keeps a pool for each layout, until it is cleared.
    #[gpu_leak_check]
    #[test]
    pub fn with_its_own_pipeline() {
        let gpu = shared();
        let pipeline = pipeline(&gpu.device).unwrap();
        add_one_with(gpu, &pipeline, &[1]).unwrap();
        gpu.sets.clear(&pipeline.layout().set_layouts()[0]);
    }
}

/// Tests that leak, and one that runs the tests above repeatedly. Each is run in a separate process
/// by a test below.
mod planted {
    use super::*;

    #[test]
    #[ignore = "run in a separate process"]
    fn a_hundred_times_alongside_busy_threads() {
        support::start_busy_threads();
        for _ in 0..100 {
            works::with_its_own_device();
            works::with_a_shared_device();
            works::on_several_threads();
            works::with_its_own_pipeline();
        }
    }

    fn scores(gpu: &Gpu) -> Subbuffer<[u8]> {
        let info = BufferCreateInfo {
            usage: BufferUsage::STORAGE_BUFFER,
            ..Default::default()
        };
        Buffer::new_slice(gpu.memory.clone(), info, Default::default(), 65_536).unwrap() // leak: forgotten
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_buffer() {
        std::mem::forget(scores(shared()));
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_buffer_with_its_device() {
        std::mem::forget(scores(&Gpu::open().expect("a Vulkan device")));
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_pipeline_of_its_own_without_clearing() {
        let gpu = shared();
        let pipeline = pipeline(&gpu.device).unwrap();
        add_one_with(gpu, &pipeline, &[1]).unwrap();
    }
}

#[test]
fn work_is_clean_a_hundred_times_alongside_busy_threads() {
    let (passed, reports, output) =
        support::run_all("planted::a_hundred_times_alongside_busy_threads");
    assert!(passed, "{output}");
    assert_eq!(reports.len(), 400, "{output}");
    // The only findings allowed are first uses of something that all tests share.
    let of_first_use = CheckStatus::Found(FindingKind::FirstUse);
    let may_be = [CheckStatus::Clean, of_first_use];
    let other = reports
        .iter()
        .find(|report| !may_be.contains(&report.status));
    assert!(other.is_none(), "{output}");
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
        let line = support::line_of(SOURCE, "forgotten");
        assert_eq!(support::blamed(leak), Some(("tests/leaks.rs", line)));
    }
}

/// vulkano's allocator keeps a pool of descriptor sets for each layout, and so keeps the layout.
#[test]
fn the_layout_of_a_pipeline_that_is_gone_is_found() {
    let checked = support::run("planted::a_pipeline_of_its_own_without_clearing");
    let [leak] = checked.leaks()[..] else {
        panic!("{}", checked.output);
    };
    let found = (leak.resource, leak.count);
    let expected = (Some(Kind::DescriptorLayout), 1);
    assert_eq!(found, expected, "{}", checked.output);
}
