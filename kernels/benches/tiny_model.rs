//! Measures the time that the small network takes, compared with PyTorch on the same GPU.
//!
//! ```text
//! cargo bench -p gpu-leak-kernels --bench tiny_model -- [--device cuda:0] [--pytorch python3]
//! ```
//!
//! Prints the median of 30 blocks of each workload, in microseconds per round. With `--pytorch`, a
//! Python process runs the same blocks in turn, so that clock speed and other load affect both
//! equally.
#![expect(clippy::print_stdout, reason = "the table is the benchmark's purpose")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use gpu_leak_kernels::memory::Buffer;
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::{Device, Result, Tensor, TinyModel, TrainingStep, inference_mode};

const BLOCKS: usize = 30;
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let device = match option("--device").as_deref() {
        None | Some("embedded") => Device::embedded()?,
        Some(name) => Device::cuda(name.trim_start_matches("cuda:").parse()?)?,
    };
    // On the CPU, there are no launches and arithmetic dominates, so a few rounds are enough.
    let rounds = if device.as_cuda().is_some() { 500 } else { 10 };
    let mut pytorch = option("--pytorch")
        .map(|python| Pytorch::start(&python))
        .transpose()?;

    println!(
        "{:<22} {:>10} {:>10} {:>8}",
        device.to_string(),
        "ours µs",
        "PyTorch µs",
        "ratio"
    );
    let mut workloads = workloads(&device)?;
    let mut times = vec![(Vec::new(), Vec::new()); workloads.len()];
    for block in 0..=BLOCKS {
        for (workload, times) in workloads.iter_mut().zip(&mut times) {
            let ours = workload.block(&device, rounds)?;
            let theirs = pytorch
                .as_mut()
                .map(|pytorch| pytorch.block(workload.name, rounds))
                .transpose()?;
            // The first block is a warm-up.
            if block > 0 {
                times.0.push(ours);
                times.1.extend(theirs);
            }
        }
    }
    for (workload, (ours, theirs)) in workloads.iter().zip(times) {
        let ours = median(ours);
        if theirs.is_empty() {
            println!("{:<22} {ours:>10.2}", workload.name);
        } else {
            let theirs = median(theirs);
            println!(
                "{:<22} {ours:>10.2} {theirs:>10.2} {:>7.2}×",
                workload.name,
                theirs / ours
            );
        }
    }
    Ok(())
}

fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

struct Workload {
    /// The name of the workload, which the Python side also uses.
    name: &'static str,
    round: Box<dyn FnMut() -> Result<()>>,
}

impl Workload {
    /// Runs a block of rounds, and returns the microseconds per round.
    fn block(&mut self, device: &Device, rounds: u32) -> Result<f64> {
        device.synchronize()?;
        let start = Instant::now();
        for _ in 0..rounds {
            (self.round)()?;
        }
        device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds))
    }
}

fn workloads(device: &Device) -> Result<Vec<Workload>> {
    let model = TinyModel::new(device)?;
    let batch = Tensor::rand([BATCH, TinyModel::INPUTS], device)?;
    let inference = move || inference_mode(|| model.forward(&batch)).map(drop);
    let own = device.clone();
    let allocation = move || Buffer::new(&own, 25_600).map(drop);
    Ok(vec![
        Workload {
            name: "inference",
            round: Box::new(inference),
        },
        Workload {
            name: "training_sgd",
            round: training(device, |parameters| Sgd::new(parameters, 0.01))?,
        },
        Workload {
            name: "training_sgd_graph",
            round: replayed_training(device)?,
        },
        Workload {
            name: "training_adam",
            round: training(device, |parameters| Adam::new(parameters, 1e-3))?,
        },
        Workload {
            name: "allocation",
            round: Box::new(allocation),
        },
    ])
}

fn training<O: Optimizer + 'static>(
    device: &Device,
    optimizer: impl FnOnce(Vec<Tensor>) -> Result<O>,
) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let model = TinyModel::new(device)?;
    let inputs = Tensor::rand([BATCH, TinyModel::INPUTS], device)?;
    let targets = Tensor::rand([BATCH, TinyModel::OUTPUTS], device)?;
    let mut optimizer = optimizer(model.parameters())?;
    Ok(Box::new(move || {
        optimizer.zero_grad();
        model.forward(&inputs)?.mse_loss(&targets)?.backward()?;
        optimizer.step()
    }))
}

/// The step of `training_sgd` as one graph.
fn replayed_training(device: &Device) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let model = TinyModel::new(device)?;
    let inputs = Tensor::rand([BATCH, TinyModel::INPUTS], device)?;
    let targets = Tensor::rand([BATCH, TinyModel::OUTPUTS], device)?;
    let mut optimizer = Sgd::new(model.parameters(), 0.01)?;
    let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |inputs, targets| {
        model.forward(inputs)?.mse_loss(targets)
    })?;
    Ok(Box::new(move || step.replay()))
}

/// The Python side, which runs one block per request.
struct Pytorch {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pytorch {
    fn start(python: &str) -> std::io::Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", include_str!("tiny_model.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = child.stdin.take().expect("it was piped");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        Ok(Self {
            child,
            questions,
            answers,
        })
    }

    fn block(&mut self, workload: &str, rounds: u32) -> Result<f64, Box<dyn Error>> {
        writeln!(self.questions, "{workload} {rounds}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer.trim().parse()?)
    }
}

impl Drop for Pytorch {
    fn drop(&mut self) {
        // The process would exit by itself when its input ends, but nothing would wait for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
