//! The leak that [docs/wgpu.md](../../../docs/wgpu.md) describes with its report, and the fix.

use std::sync::Mutex;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_client_support as support;
use gpu_leak_client_wgpu::Gpu;

const SOURCE: &str = include_str!("lesson.rs");

/// The frames that have been shown, kept for a replay.
static HISTORY: Mutex<Vec<wgpu::Buffer>> = Mutex::new(Vec::new());

fn show(gpu: &Gpu, frame: &[u8]) {
    let described = wgpu::BufferDescriptor {
        label: Some("frame"),
        size: frame.len() as u64,
        usage: wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    };
    let buffer = gpu.device.create_buffer(&described); // leak: frame
    gpu.queue.write_buffer(&buffer, 0, frame);
    gpu.queue.submit([]);
    HISTORY.lock().unwrap().push(buffer);
}

fn play() {
    let gpu = Gpu::open().expect("a Vulkan device");
    for _ in 0..3 {
        show(&gpu, &[0; 4096]);
    }
    gpu.wait();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn a_scene_keeps_its_frames() {
    play();
}

#[gpu_leak_check]
#[ignore = "run in a separate process"]
#[test]
fn a_scene_frees_its_frames() {
    play();
    HISTORY.lock().unwrap().clear();
}

#[test]
fn the_report_names_the_line_the_label_and_the_static() {
    let checked = support::run("a_scene_keeps_its_frames");
    let [leak] = checked.leaks()[..] else {
        panic!("{}", checked.output);
    };
    let found = (leak.resource, leak.count, leak.bytes);
    assert_eq!(
        found,
        (Some(Kind::Buffer), 3, 3 * 4096),
        "{}",
        checked.output
    );
    let line = support::line_of(SOURCE, "frame");
    assert_eq!(support::blamed(leak), Some(("tests/lesson.rs", line)));
    let named = leak.notes.iter().any(|note| note == "named \"frame\"");
    assert!(named, "{}", checked.output);
    let holders = leak.holders.iter().flatten();
    let names: Vec<_> = holders.filter_map(|it| it.root.name.as_deref()).collect();
    assert_eq!(names, ["lesson::HISTORY"], "{}", checked.output);
}

#[test]
fn the_fixed_scene_passes() {
    let checked = support::run("a_scene_frees_its_frames");
    assert!(checked.passed, "{}", checked.output);
    assert!(!checked.report.status.is_failure(), "{}", checked.output);
    assert_ne!(checked.report.status, CheckStatus::NotMeasured);
}
