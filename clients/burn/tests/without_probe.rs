//! Without a probe, nobody knows which parts of cubecl's pages are in use: the check says so.

use burn::backend::{Cuda, cuda::CudaDevice};
use burn::tensor::{Tensor, backend::Backend};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_client_support as support;

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn a_forgotten_tensor() {
    let device = CudaDevice::new(0);
    let scores = Tensor::<Cuda, 2>::empty([256, 1024], &device);
    std::mem::forget(scores);
    // cubecl works when something is asked of it, and there is no probe to ask.
    Cuda::<f32, i32>::sync(&device).expect("nothing went wrong on the device");
}

#[test]
fn the_check_says_what_it_cannot_judge() {
    let checked = support::run("a_forgotten_tensor");
    assert!(checked.passed, "{}", checked.story);
    // Beside what cubecl makes once, if it made anything, else in place of a verdict.
    let reason = checked.report.reason.iter().map(|reason| &reason.what);
    let said: Vec<&String> = reason.chain(&checked.report.notes).collect();
    let told = said.iter().any(|what| what.contains("no probe for cubecl"));
    assert!(told, "{}", checked.story);
}
