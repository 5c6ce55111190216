//! The caching allocator under the harness. Its blocks are in a layer of their own, and its
//! segments are its reserve.

use std::mem;
use std::sync::LazyLock;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, Figure, Finding, FindingKind, Report};
use gpu_leak_kernels::memory::{Buffer, Policy, Stream};
use gpu_leak_kernels::{Device, EmbeddedConfig, Graph, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

const LAYER: &str = "allocator:gpu-leak-kernels";

/// The device of the checked bodies below. Its number is 3, so that the tests can verify that
/// reports name the device.
fn device() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| {
        Device::embedded_with(EmbeddedConfig {
            ordinal: 3,
            ..EmbeddedConfig::default()
        })
        .expect("an embedded device")
    });
    &DEVICE
}

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_two_buffers() {
    let warm = take(device(), 5000);
    for _ in 0..2 {
        mem::forget(Buffer::new(device(), 1000)); // leak: buffer
    }
    drop(warm);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_nothing() {
    let other = device().as_embedded().expect("it is one").new_stream();
    let buffers: Vec<_> = (1..40).map(|n| take(device(), n * 100_000)).collect();
    let shared = &buffers[20];
    shared
        .record_stream(&Stream::Embedded(other))
        .expect("a stream of the device");
    drop(buffers);
}

/// Returns a device that the process keeps. If its last owner dropped it, everything that the tests
/// have leaked would be freed with it.
fn cuda() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::cuda(0).expect("device 0"));
    &DEVICE
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_buffer_on_cuda() {
    let warm = take(cuda(), 30 << 20);
    mem::forget(Buffer::new(cuda(), 1000)); // leak: cuda
    drop(warm);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn keeps_nothing_on_cuda() {
    let _several = [10, 3 << 20, 30 << 20].map(|bytes| take(cuda(), bytes));
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn drops_its_device() {
    let own = Device::embedded().expect("an embedded device");
    drop(take(&own, 1000));
}

/// The drop of the last buffer returns the memory and releases the context.
#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn drops_its_device_before_a_buffer() {
    let own = Device::embedded().expect("an embedded device");
    let mut buffer = take(&own, 1000);
    drop(own);
    buffer.as_bytes_mut().expect("the host reaches it")[999] = 7;
    assert_eq!(buffer.device().to_string(), "embedded:0");
    drop(buffer);
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn drops_its_device_before_a_buffer_on_cuda() {
    let own = Device::cuda(0).expect("device 0");
    let buffer = take(&own, 1000);
    drop(own);
    let again = buffer.device().clone();
    drop(take(&again, 3 << 20));
    drop(again);
    drop(buffer);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_its_device() {
    let own = Device::embedded().expect("an embedded device");
    mem::forget(Buffer::new(&own, 1000));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_buffer_without_a_cache() {
    let direct = Device::embedded_with(EmbeddedConfig {
        policy: Policy::Direct,
        ..EmbeddedConfig::default()
    });
    mem::forget(take(&direct.expect("an embedded device"), 1000));
}

#[gpu_leak_check(tolerance = "1 KiB")]
#[ignore = "leaks on purpose"]
#[test]
fn pins_a_segment_with_a_tolerated_buffer() {
    // A separate device, so that each run pins a segment of its own.
    let own = Device::embedded().expect("an embedded device");
    mem::forget(take(&own, 1000));
}

/// Forgets a graph. All memory of its capture was dropped in the capture, so only the graph holds
/// its pool.
fn forget_a_graph(device: &Device) {
    let (graph, ()) = Graph::capture(device, || Tensor::zeros([1000], device).map(drop))
        .expect("it can be captured");
    mem::forget(graph.instantiate()); // leak: graph
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_graph() {
    forget_a_graph(device());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn keeps_a_graph_on_cuda() {
    forget_a_graph(cuda());
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn replays_and_keeps_nothing_on_cuda() {
    for _ in 0..100 {
        let input = Tensor::zeros([1000], cuda()).expect("there is room");
        let (graph, output) = Graph::capture(cuda(), || {
            let output = Tensor::full([1000], 1.0, cuda())?;
            output.copy_(&input)?;
            Ok(output)
        })
        .expect("it can be captured");
        let mut graph = graph.instantiate().expect("it can be replayed");
        for _ in 0..10 {
            graph.replay().expect("it runs");
        }
        drop(output);
    }
}

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("conformance::watched::{test}")))
}

fn only(report: &Report) -> &Finding {
    let [finding] = &report.findings[..] else {
        panic!("{report:#?}");
    };
    finding
}

fn line_of(mark: &str) -> Option<u32> {
    let ending = format!("// leak: {mark}");
    let lines = include_str!("watched.rs").lines();
    let (_, number) = lines.zip(1..).find(|(line, _)| line.ends_with(&ending))?;
    Some(number)
}

#[test]
fn a_kept_buffer_is_a_leak_of_the_allocators_layer() {
    let checked = run("keeps_two_buffers");
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    let finding = only(report);
    assert_eq!(finding.layer.to_string(), LAYER, "{output}");
    assert_eq!(finding.place.to_string(), "embedded:3", "{output}");
    assert_eq!(finding.resource, Some(Kind::Block), "{output}");
    // For a request of 1000 bytes, the allocator counts a block of 1024 bytes as allocated.
    assert_eq!((finding.count, finding.bytes), (2, 2048), "{output}");
    let user = &finding.site.frames[finding.site.user.expect("the line that took them")];
    assert_eq!(
        user.file.as_deref(),
        Some("tests/conformance/watched.rs"),
        "{output}"
    );
    assert_eq!(user.line, line_of("buffer"), "{output}");

    let device = report
        .devices
        .iter()
        .find(|table| table.place == finding.place);
    let rows = &device.expect("the device's table").rows;
    let row = |figure| {
        rows.iter()
            .find(|row| row.layer == LAYER && row.figure == figure)
    };
    let allocated = row(Figure::Allocated).expect("allocated");
    assert_eq!((allocated.baseline, allocated.after), (0, 2048), "{output}");
    let reserved = row(Figure::Reserved).expect("reserved");
    assert_eq!(
        (reserved.baseline, reserved.after),
        (0, 2 << 20),
        "{output}"
    );
}

#[test]
fn memory_that_is_only_cached_is_not_a_leak() {
    run("keeps_nothing").assert_clean();
    run("drops_its_device").assert_clean();
    run("drops_its_device_before_a_buffer").assert_clean();
}

/// The driver has allocated a whole segment, but only the block in it is reported.
#[test]
fn on_cuda_a_kept_buffer_is_reported_once_by_the_allocators_layer() {
    let checked = checked::run("conformance::watched::keeps_a_buffer_on_cuda");
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    let finding = only(report);
    assert_eq!(finding.layer.to_string(), LAYER, "{output}");
    assert_eq!(finding.place.to_string(), "cuda:0", "{output}");
    assert_eq!((finding.count, finding.bytes), (1, 1024), "{output}");
    let user = &finding.site.frames[finding.site.user.expect("the line that took it")];
    assert_eq!(user.line, line_of("cuda"), "{output}");
}

#[test]
fn on_cuda_memory_that_is_only_cached_is_not_a_leak() {
    checked::run("conformance::watched::keeps_nothing_on_cuda").assert_clean();
    checked::run("conformance::watched::drops_its_device_before_a_buffer_on_cuda").assert_clean();
}

/// No block and no driver resource is left, only the pool.
#[test]
fn a_kept_graph_retains_its_pool() {
    let checked = run("keeps_a_graph");
    let finding = only(checked.report());
    assert_eq!(finding.kind, FindingKind::Retained, "{}", checked.output());
    assert_eq!(finding.layer.to_string(), LAYER, "{}", checked.output());
    assert_eq!(finding.bytes, 2 << 20, "{}", checked.output());
}

#[test]
fn on_cuda_a_kept_graph_is_reported_with_its_line() {
    let checked = checked::run("conformance::watched::keeps_a_graph_on_cuda");
    let (report, output) = (checked.report(), checked.output());
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    let mut findings = report.findings.iter();
    let exec = findings.find(|finding| finding.resource == Some(Kind::ExecGraph));
    let exec = exec.unwrap_or_else(|| panic!("{output}"));
    assert_eq!(exec.count, 1, "{output}");
    let lines: Vec<_> = exec.site.frames.iter().map(|frame| frame.line).collect();
    assert!(lines.contains(&line_of("graph")), "{output}");
}

#[test]
fn on_cuda_replayed_graphs_leave_nothing() {
    checked::run("conformance::watched::replays_and_keeps_nothing_on_cuda").assert_clean();
}

#[test]
fn a_kept_device_is_a_leak_of_its_buffer_alone() {
    let checked = run("keeps_its_device");
    let finding = only(checked.report());
    assert_eq!(finding.layer.to_string(), LAYER, "{}", checked.output());
    assert_eq!(
        (finding.count, finding.bytes),
        (1, 1024),
        "{}",
        checked.output()
    );
}

#[test]
fn without_a_cache_the_layer_below_reports_the_leak() {
    let checked = run("keeps_a_buffer_without_a_cache");
    let finding = only(checked.report());
    assert_eq!(
        finding.layer.to_string(),
        "allocator:embedded",
        "{}",
        checked.output()
    );
    assert_eq!(
        (finding.count, finding.bytes),
        (1, 1000),
        "{}",
        checked.output()
    );
}

#[test]
fn a_segment_that_contains_something_allowed_may_stay() {
    run("pins_a_segment_with_a_tolerated_buffer").assert_clean();
}
