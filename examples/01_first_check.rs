//! Two checks of a small network: one gives everything back, one keeps what it should not.
//!
//! ```text
//! cargo test -p gpu-leak-examples --test 01_first_check [-- --device cuda:0]
//! ```
//!
//! The two tests below stand as they would in any project. Here `main` runs them instead of
//! `cargo test`, so that the report of the second is the lesson and not a failure.
#![expect(clippy::print_stdout, reason = "the lesson is printed")]

use std::error::Error;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};

use gpu_leak_check::report::model::{Report, Verdict};
use gpu_leak_check::report::{Sink, json, text};
use gpu_leak_check::{gpu_leak_check, registry};
use gpu_leak_examples::{device_named, option};
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, Result, Tensor, TinyModel, inference_mode};

/// A batch: 64 rows of 100 inputs.
const BATCH: [usize; 2] = [64, TinyModel::INPUTS];
/// What is kept of each: 64 rows of 10 outputs, 4 bytes each.
const KEPT_BYTES: u64 = 64 * TinyModel::OUTPUTS as u64 * 4;

#[gpu_leak_check]
#[test]
fn gives_everything_back() -> Result<()> {
    let model = TinyModel::new(device())?;
    let batch = Tensor::randn(BATCH, device())?;
    let _scores = predict(&model, &batch)?;
    Ok(())
}

#[gpu_leak_check]
#[test]
fn keeps_its_scores_for_later() -> Result<()> {
    let model = TinyModel::new(device())?;
    let batch = Tensor::randn(BATCH, device())?;
    let scores = predict(&model, &batch)?;
    // Meant for a plot at the end of the run. Nobody ever takes them out again.
    HISTORY.lock().expect("nobody panics here").push(scores);
    Ok(())
}

static HISTORY: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn predict(model: &TinyModel, batch: &Tensor) -> Result<Tensor> {
    inference_mode(|| model.forward(batch))
}

/// The device that all tests share.
static DEVICE: OnceLock<Device> = OnceLock::new();

fn device() -> &'static Device {
    DEVICE.get().expect("main has set it")
}

fn main() -> std::result::Result<ExitCode, Box<dyn Error>> {
    let name = option("--device")?.unwrap_or_else(|| "embedded".to_owned());
    let device = DEVICE.get_or_init(|| device_named(&name).expect("a device"));
    println!("Two tests of TinyModel on {device}, each under #[gpu_leak_check].");

    let mut reports = Vec::new();
    for case in registry::cases() {
        println!("\n-- test {}", case.name());
        let failed = catch_unwind(|| gpu_leak_check::run(case)).is_err();
        let report = last_report()?;
        if failed {
            println!("-- failed, as cargo test would tell it");
        } else {
            print!(
                "{}",
                text::to_string(&report, &text::Rendering::for_stderr())
            );
            println!("-- passed; cargo test would say no more than ok");
        }
        reports.push((failed, report));
    }

    let [(first_failed, first), (second_failed, second)] = &reports[..] else {
        return Err("there are two tests in this file".into());
    };
    let as_planned = !first_failed
        && first.verdict == Verdict::Clean
        && *second_failed
        && is_the_planted_leak(second);
    if !as_planned {
        return Err("the first test should be clean, and the second leave one tensor".into());
    }
    println!("\nAs planned: the first is clean, and the second left {KEPT_BYTES} bytes.");
    Ok(ExitCode::SUCCESS)
}

/// What the last check wrote into the run's file.
fn last_report() -> std::result::Result<Report, Box<dyn Error>> {
    let path = Sink::global()
        .path()
        .ok_or("no run file: set GPU_LEAK_CHECK_OUTPUT to a folder that can be written")?;
    let mut reports = json::read(&path)?.reports;
    reports.pop().ok_or_else(|| "the run file is empty".into())
}

/// One tensor of scores, taken in [`predict`], and nothing else.
fn is_the_planted_leak(report: &Report) -> bool {
    let [finding] = &report.findings[..] else {
        return false;
    };
    let line = finding.site.user.and_then(|at| finding.site.frames.get(at));
    finding.verdict == Verdict::Leaked
        && finding.count == 1
        && finding.bytes == KEPT_BYTES
        && line.is_some_and(|frame| {
            let function = frame.function.as_deref().unwrap_or_default();
            function.contains("predict")
        })
}
