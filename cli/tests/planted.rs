//! Planted tests. Other tests run each of them in a separate process, under a real check.

use std::env;
use std::mem::forget;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Check, Place, gpu_leak_check};
use gpu_leak_kernels::{Device, Result, Tensor};

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn keeps_a_tensor() -> Result<()> {
    let device = Device::embedded()?;
    keep(Tensor::zeros([256], &device)?);
    Ok(())
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn keeps_two_tensors() -> Result<()> {
    let device = Device::embedded()?;
    keep(Tensor::zeros([256], &device)?);
    keep(Tensor::full([1024], 1.0, &device)?);
    Ok(())
}

#[gpu_leak_check(rounds = 4)]
#[ignore = "planted"]
#[test]
fn keeps_more_each_round() -> Result<()> {
    let device = Device::embedded()?;
    keep(Tensor::zeros([512], &device)?);
    Ok(())
}

#[gpu_leak_check(max_allocated = "4 KiB", layer = "allocator:gpu-leak-kernels")]
#[ignore = "planted"]
#[test]
fn takes_too_much() -> Result<()> {
    let device = Device::embedded()?;
    Tensor::zeros([2048], &device)?;
    Ok(())
}

#[gpu_leak_check(unchecked_if(true, "it is known to leak"))]
#[ignore = "planted"]
#[test]
fn is_excluded() -> Result<()> {
    create_and_drop()
}

fn create_and_drop() -> Result<()> {
    let device = Device::embedded()?;
    Tensor::zeros([256], &device)?;
    Ok(())
}

/// The test expects that its block fails.
#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn catches_a_block_that_fails() -> Result<()> {
    let device = Device::embedded()?;
    let block = || {
        Check::new("step")
            .confirm(false)
            .run(|| Tensor::zeros([256], &device))
    };
    assert!(panic::catch_unwind(AssertUnwindSafe(block)).is_err());
    Ok(())
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn gives_back() -> Result<()> {
    create_and_drop()
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn has_a_peak() -> Result<()> {
    let device = Device::embedded()?;
    let weights = Tensor::full([1024], 0.5, &device)?;
    for _ in 0..5 {
        let activations = weights.sin()?;
        activations.relu()?;
    }
    let _late = Tensor::zeros([256], &device)?;
    Ok(())
}

#[ignore = "planted"]
#[test]
fn allocates_beside_a_check() -> Result<()> {
    Tensor::zeros([256], &Device::embedded()?)?;
    Ok(())
}

#[gpu_leak_check(max_allocated = "4 KiB", layer = "allocator:misspelt")]
#[ignore = "planted"]
#[test]
fn has_a_budget_for_a_layer_that_nobody_reported() -> Result<()> {
    Tensor::zeros([2048], &Device::embedded()?)?;
    Ok(())
}

/// Frees an address at which two places have a block, without naming the place.
#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn frees_one_of_two_at_the_same_address() {
    static OFFSETS: Source = Source::new("offsets", &[]);
    for place in ["embedded:0", "embedded:1"] {
        OFFSETS.allocated(Place::named(place), 64, 1024);
    }
    OFFSETS.freed(64);
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn keeps_the_given_count() -> Result<()> {
    let many = env::var("PLANTED").map_or(1, |many| many.parse().expect("a number"));
    let device = Device::embedded()?;
    for _ in 0..many {
        keep(Tensor::zeros([256], &device)?);
    }
    Ok(())
}

#[gpu_leak_check(on_leak = "warn")]
#[ignore = "planted"]
#[test]
fn only_warns() -> Result<()> {
    let device = Device::embedded()?;
    keep(Tensor::zeros([256], &device)?);
    Ok(())
}

/// Leaks only on a test runner's first attempt.
#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn leaks_at_first() -> Result<()> {
    let tensor = Tensor::zeros([256], &Device::embedded()?)?;
    if env::var("NEXTEST_ATTEMPT").is_ok_and(|number| number == "1") {
        keep(tensor);
    }
    Ok(())
}

/// Prints that it is running, and ends when its standard input is closed.
#[gpu_leak_check]
#[ignore = "planted"]
#[test]
#[expect(clippy::print_stdout, reason = "informs the process that waits for it")]
fn waits() {
    println!("\nunder way");
    let _ = std::io::read_to_string(std::io::stdin());
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn sees_nothing() {}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn ends_the_process() {
    std::process::abort();
}

/// Starts a thread that allocates a kilobyte for each message, and replies.
fn old_thread() -> &'static Sender<Sender<()>> {
    static POOL: Source = Source::new("old-pool", &[]);
    static THREAD: OnceLock<Sender<Sender<()>>> = OnceLock::new();
    THREAD.get_or_init(|| {
        let (words, inbox) = mpsc::channel::<Sender<()>>();
        thread::spawn(move || {
            for (answer, address) in inbox.into_iter().zip(1..) {
                POOL.allocated(Place::named("embedded:0"), address, 1024);
                answer.send(()).expect("somebody waits");
            }
        });
        words
    })
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn a_thread_is_started() {
    old_thread();
}

#[gpu_leak_check]
#[ignore = "planted"]
#[test]
fn b_its_thread_allocates() {
    let (answer, answers) = mpsc::channel();
    old_thread().send(answer).expect("the thread");
    answers.recv().expect("an answer");
}

fn keep(tensor: Tensor) {
    forget(tensor);
}
