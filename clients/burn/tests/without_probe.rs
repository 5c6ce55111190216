//! Without a probe, nobody knows which parts of cubecl's pages are in use: the check says so.

use burn::backend::cuda::CudaDevice;
use burn::tensor::Tensor;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::model::Verdict;
use gpu_leak_client_burn::Gpu;
use gpu_leak_client_support as support;

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn a_forgotten_tensor() {
    let scores = Tensor::<Gpu, 2>::empty([256, 1024], &CudaDevice::new(0));
    std::mem::forget(scores);
}

#[test]
fn the_check_is_inconclusive_and_says_what_is_missing() {
    let checked = support::run("a_forgotten_tensor");
    let (report, story) = (&checked.report, &checked.story);
    assert_eq!(report.verdict, Verdict::Inconclusive, "{story}");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, "no-probe", "{story}");
    assert!(reason.what.contains("cubecl"), "{story}");
}
