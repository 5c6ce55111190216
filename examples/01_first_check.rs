//! Two tests of a small network. One frees everything, and the other keeps a tensor.
//!
//! ```text
//! cargo test -p gpu-leak-examples --test 01_first_check [-- --device cuda:0]
//! ```
//!
//! The tests are written as in any project. The only difference is that this program's own `main`
//! runs them, so that the leak in the second test is shown without failing `cargo test`.
#![expect(clippy::print_stdout, reason = "the output is the lesson's purpose")]

use std::error::Error;
use std::sync::{Mutex, OnceLock};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_examples::lesson::{self, Checked};
use gpu_leak_examples::{device_named, option};
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, Result, Tensor, TinyModel, inference_mode};

const BATCH: usize = 64;

#[gpu_leak_check]
#[test]
fn gives_everything_back() -> Result<()> {
    let model = TinyModel::new(device())?;
    let batch = Tensor::randn([BATCH, TinyModel::INPUTS], device())?;
    let _scores = predict(&model, &batch)?;
    Ok(())
}

#[gpu_leak_check]
#[test]
fn keeps_its_scores_for_later() -> Result<()> {
    let model = TinyModel::new(device())?;
    let batch = Tensor::randn([BATCH, TinyModel::INPUTS], device())?;
    let scores = predict(&model, &batch)?;
    // These scores are meant for a plot at the end, but nothing ever removes them.
    HISTORY.lock().expect("nobody panics here").push(scores);
    Ok(())
}

static HISTORY: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

fn predict(model: &TinyModel, batch: &Tensor) -> Result<Tensor> {
    inference_mode(|| model.forward(batch))
}

/// The device that the tests share, as in most projects.
static DEVICE: OnceLock<Device> = OnceLock::new();

fn device() -> &'static Device {
    DEVICE.get().expect("`main` creates it")
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let name = option("--device")?.unwrap_or_else(|| "embedded".to_owned());
    let device = device_named(&name)?;
    println!("Two tests of TinyModel on {device}, each under #[gpu_leak_check].");
    // What a device creates once for all its users, such as kernels, belongs to no single test.
    predict(
        &TinyModel::new(&device)?,
        &Tensor::randn([BATCH, TinyModel::INPUTS], &device)?,
    )?;
    DEVICE.get_or_init(|| device);

    let checked = lesson::run_tests()?;
    let [clean, leaking] = &checked[..] else {
        return Err("there are two tests in this file".into());
    };
    if clean.failed || clean.report.status != CheckStatus::Clean {
        return Err("the first test should be clean".into());
    }
    if !is_the_planted_leak(leaking) {
        return Err("the second test should fail because of one tensor of scores".into());
    }
    println!(
        "\nAs planned: the first test is clean, and the second fails because of the scores it keeps."
    );
    Ok(())
}

/// Whether the only finding is one tensor of scores, allocated in [`predict`].
fn is_the_planted_leak(Checked { failed, report }: &Checked) -> bool {
    let scores = BATCH * TinyModel::OUTPUTS * size_of::<f32>();
    let [finding] = &report.findings[..] else {
        return false;
    };
    *failed
        && finding.kind == FindingKind::Leaked
        && (finding.count, finding.bytes) == (1, scores as u64)
        && allocated_in(report).is_some_and(|function| function.contains("predict"))
}

/// Returns the function that contains the line that the first finding points at.
fn allocated_in(report: &Report) -> Option<&str> {
    let site = &report.findings.first()?.site;
    site.frames.get(site.user?)?.function.as_deref()
}
