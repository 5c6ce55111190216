//! What the code under test can declare about memory of the CUDA driver.

#![expect(unsafe_code, reason = "calls the driver")]

use cudarc::driver::result::{self, stream};
use cudarc::driver::{CudaContext, sys};
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_check::{allow, gpu_leak_check, hand_over};
use gpu_leak_tests::checked;

use super::{assert_allowed, found};

/// Makes the primary context current on this thread, and keeps it until the process ends.
fn context() {
    let context = CudaContext::new(0).expect("device 0 has a context");
    context.bind_to_thread().expect("a live context");
    std::mem::forget(context);
}

fn linear(bytes: usize) -> u64 {
    // SAFETY: the caller made a context current.
    unsafe { result::malloc_sync(bytes) }.expect("memory")
}

fn stream_ordered(bytes: usize) -> u64 {
    // SAFETY: the null stream always exists.
    unsafe { result::malloc_async(stream::null(), bytes) }.expect("memory")
}

fn pinned(bytes: usize) -> u64 {
    // SAFETY: the caller made a context current.
    let pointer = unsafe { result::malloc_host(bytes, 0) }.expect("memory");
    pointer as u64
}

fn new_stream() -> sys::CUstream {
    stream::create(stream::StreamKind::NonBlocking).expect("a stream")
}

fn run(test: &str) -> checked::Checked {
    checked::run(&format!("hooks::driver::{test}"))
}

/// If allowed memory pins the reserve of a pool, that reserve is not a separate finding.
#[test]
fn allowed_memory_of_the_driver_fails_nothing() {
    assert_allowed(&run("keeps_some_of_each"), &[3000, 2000, 1000, 0]);
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn keeps_some_of_each() {
    context();
    allow("kept for good", || {
        linear(1000);
        pinned(2000);
        stream_ordered(3000);
        new_stream();
    });
}

#[test]
fn handed_over_memory_of_the_driver_fails_nothing() {
    let checked = run("hands_over_some_of_each");
    checked.assert_clean();
    let notes = &checked.report().notes;
    let note = "the test handed over 4 objects, 5.86 KiB (6,000 B)";
    assert!(notes.iter().any(|n| n == note), "{}", checked.output());
}

#[gpu_leak_check]
#[ignore = "keeps memory"]
#[test]
fn hands_over_some_of_each() {
    context();
    hand_over(linear(1000));
    hand_over(pinned(2000));
    hand_over(stream_ordered(3000));
    hand_over(new_stream() as u64);
}

#[test]
fn a_leak_beside_handed_over_memory_of_the_driver_is_found() {
    let checked = run("hands_over_one_of_two");
    assert_eq!(
        found(checked.report()),
        [(FindingKind::Leaked, 1000)],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "fails"]
#[test]
fn hands_over_one_of_two() {
    context();
    linear(1000);
    hand_over(linear(1000));
}
