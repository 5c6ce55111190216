//! Without a probe, a check cannot know which parts of cubecl's pages are in use, and reports this.

use burn::tensor::{Tensor, backend::Backend};
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_client_burn::{Device, Gpu};
use gpu_leak_client_support as support;

/// By default, cubecl creates and keeps a stream for each thread that uses it. Each run of a test
/// has its own thread, so each run would leak one more stream.
#[gpu_leak_check::warmup]
fn share_one_stream() {
    let mut config = CubeClRuntimeConfig::default();
    config.streaming.max_streams = 1;
    CubeClRuntimeConfig::set(config);
}

#[gpu_leak_check]
#[ignore = "run in a separate process"]
#[test]
fn a_forgotten_tensor() {
    let device = Device::default();
    let scores = Tensor::<Gpu, 2>::empty([256, 1024], &device);
    std::mem::forget(scores);
    // cubecl defers its work until something requests the work, and here there is no probe to do
    // so.
    Gpu::sync(&device).expect("nothing went wrong on the device");
}

#[test]
fn the_check_says_what_it_cannot_judge() {
    let checked = support::run("a_forgotten_tensor");
    assert!(checked.passed, "{}", checked.output);
    let report = &checked.report;
    assert_eq!(
        report.status,
        CheckStatus::Inconclusive,
        "{}",
        checked.output
    );
    let reason = report.reason.as_ref().map_or("", |reason| &reason.what);
    assert!(reason.contains("memory that cubecl"), "{}", checked.output);
}
