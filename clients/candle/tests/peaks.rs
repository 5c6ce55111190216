//! Tests what a report says about the peaks of programs written with candle: the lines add up to
//! the peak exactly, the largest line belongs to the program itself, and allocations that could
//! share a buffer according to the report can do so.
//!
//! To test the last point, each program is compared with a twin that computes the same result but
//! reuses the buffer. The report must have predicted exactly how many allocations the twin saves.
//! If the report only shows the peak, the twin's peak must be lower by the bytes that the report
//! shows.

use std::io::Write as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use candle_core::backend::BackendStorage as _;
use candle_core::{CpuStorage, CudaStorage, D, DType, Device, InplaceOp1, Layout, Result, Tensor};
use candle_nn::{Optimizer, SGD, VarBuilder, VarMap, init, loss, ops};
use gpu_leak_check::report::check_report::{Course, Figure, Peak, Report, Reusable, Share};
use gpu_leak_check::{Check, Place};

const F16: u64 = 2;
const F32: u64 = 4;

/// A training step keeps the input and the output of each activation until the step ends. The
/// backward pass holds at least as much memory again.
#[test]
fn activations_of_a_training_step() {
    // Each layer has a different size, so that no two layers could share a buffer.
    const BATCH: usize = 8192;
    const WIDTHS: [usize; 7] = [1024, 960, 896, 832, 768, 704, 640];
    let Some(device) = device() else { return };
    let step = || -> Result<f32> {
        let variables = VarMap::new();
        let builder = VarBuilder::from_varmap(&variables, DType::F32, device);
        let mut layers = Vec::new();
        for (number, sizes) in WIDTHS.windows(2).enumerate() {
            let (builder, hint) = (builder.pp(number), init::DEFAULT_KAIMING_NORMAL);
            layers.push(builder.get_with_hints((sizes[0], sizes[1]), "weight", hint)?);
        }
        let mut optimizer = SGD::new(variables.all_vars(), 1e-3)?;
        let mut hidden = Tensor::ones((BATCH, WIDTHS[0]), DType::F32, device)?;
        for layer in &layers {
            hidden = hidden.matmul(layer)?.relu()?; // peak: activations
        }
        let loss = loss::mse(&hidden, &hidden.zeros_like()?)?;
        optimizer.backward_step(&loss)?; // peak: backward
        loss.to_scalar()
    };
    let (loss, peak) = measure("a training step", step);
    assert!(loss.is_finite());
    let outputs: usize = WIDTHS[1..].iter().sum();
    let activations = 2 * F32 * (BATCH * outputs) as u64;
    let input = F32 * (BATCH * WIDTHS[0]) as u64;
    let weights: usize = WIDTHS.windows(2).map(|sizes| sizes[0] * sizes[1]).sum();
    let weights = F32 * weights as u64;
    peak.assert_holds(input + activations + weights + weights);
    peak.assert_largest("backward", activations);
    assert_eq!(peak.line("activations"), (12, activations));
    assert_eq!(peak.reusable, []);
}

/// The softmax of candle-nn holds three tensors of the size of its input, while its variant for the
/// last dimension holds one. This explains the difference between the peaks.
#[test]
fn softmax_of_attention_scores() {
    const HEADS: usize = 8;
    const LENGTH: usize = 2048;
    const WIDTH: usize = 64;
    let Some(device) = device() else { return };
    let attention = |is_fused: bool| -> Result<f32> {
        let query = Tensor::ones((HEADS, LENGTH, WIDTH), DType::F32, device)?;
        let (key, value) = (query.copy()?, query.copy()?);
        let weights = {
            let scores = (query / 8.)?.matmul(&key.t()?)?; // peak: scores
            match is_fused {
                true => ops::softmax_last_dim(&scores)?,    // peak: fused
                false => ops::softmax(&scores, D::Minus1)?, // peak: softmax
            }
        };
        row_sum(&weights.matmul(&value)?.get(0)?, 0)
    };
    let (sum, peak) = measure("softmax", || attention(false));
    let scores = F32 * (HEADS * LENGTH * LENGTH) as u64;
    let inputs = 2 * F32 * (HEADS * LENGTH * WIDTH) as u64;
    peak.assert_holds(inputs + 2 * scores);
    peak.assert_largest("softmax", 3 * scores);
    assert_eq!(peak.line("scores"), (1, scores));
    assert_eq!(peak.reusable, []);

    let (same, mended) = measure("softmax_last_dim", || attention(true));
    assert!((same - sum).abs() < 1e-3, "{same}, {sum}");
    assert_eq!(mended.line("fused"), (1, scores));
    let fewer = peak.line("softmax").1 - mended.line("fused").1;
    assert_eq!(peak.own() - mended.own(), fewer);
    assert_eq!(mended.reusable, []);
}

/// The program concatenates the parts of each batch. Its twin copies them into one batch tensor.
#[test]
fn batches_that_are_concatenated() {
    const ROWS: usize = 4096;
    const WIDTH: usize = 2048;
    const SHARDS: usize = 4;
    const BATCHES: usize = 6;
    let Some(device) = device() else { return };
    let shards = || -> Result<Vec<Tensor>> {
        let shard = |number| Tensor::full(number as f32, (ROWS, WIDTH), device); // peak: shards
        (0..SHARDS).map(shard).collect()
    };
    let concatenating = || -> Result<Vec<f32>> {
        let (shards, mut read) = (shards()?, Vec::new());
        for number in 0..BATCHES {
            let parts = [&shards[number % SHARDS], &shards[(number + 1) % SHARDS]];
            let batch = Tensor::cat(&parts, 0)?; // peak: batch
            read.push(row_sum(&batch, ROWS)?);
        }
        Ok(read)
    };
    let copying = || -> Result<Vec<f32>> {
        let (shards, mut read) = (shards()?, Vec::new());
        let batch = Tensor::zeros((2 * ROWS, WIDTH), DType::F32, device)?;
        for number in 0..BATCHES {
            let parts = [&shards[number % SHARDS], &shards[(number + 1) % SHARDS]];
            batch.slice_set(parts[0], 0, 0)?;
            batch.slice_set(parts[1], 0, ROWS)?;
            read.push(row_sum(&batch, ROWS)?);
        }
        Ok(read)
    };
    let (read, peak) = measure("concatenated batches", concatenating);
    let shard = F32 * (ROWS * WIDTH) as u64;
    peak.assert_holds((SHARDS as u64 + 2) * shard);
    peak.assert_largest("shards", SHARDS as u64 * shard);
    assert_eq!(peak.line("batch"), (1, 2 * shard));
    peak.assert_reusable("batch", 2 * shard, BATCHES);

    let (same, mended) = measure("one batch", copying);
    assert_eq!(same, read);
    assert_reused(&peak, &mended);
}

/// Weights of 32 bits are converted to 16 bits. If all weights are loaded first, the peak is three
/// times the memory that stays. If each weight is converted before the next is loaded, the peak
/// exceeds that memory by one 32-bit weight, and one buffer could serve all 32-bit weights.
/// <https://github.com/huggingface/candle/issues/2070>
#[test]
fn weights_that_are_converted_while_loading() {
    const LAYERS: usize = 4;
    const SHAPE: (usize, usize) = (4096, 4096);
    let Some(device) = device() else { return };
    let file: Vec<f32> = (0..SHAPE.0 * SHAPE.1).map(|it| (it % 64) as f32).collect();
    let all_at_once = || -> Result<f32> {
        let (mut loaded, mut weights) = (Vec::new(), Vec::new());
        for _ in 0..LAYERS {
            loaded.push(Tensor::from_slice(&file, SHAPE, device)?); // peak: loaded
        }
        for weight in &loaded {
            weights.push(weight.to_dtype(DType::F16)?); // peak: converted
        }
        row_sum(&weights[LAYERS - 1], 1)
    };
    let one_by_one = || -> Result<f32> {
        let mut weights = Vec::new();
        for _ in 0..LAYERS {
            let loaded = Tensor::from_slice(&file, SHAPE, device)?; // peak: loaded singly
            weights.push(loaded.to_dtype(DType::F16)?); // peak: converted singly
        }
        row_sum(&weights[LAYERS - 1], 1)
    };
    let one_buffer = || -> Result<f32> {
        let mut weights = Vec::new();
        let loaded = Tensor::zeros(SHAPE, DType::F32, device)?;
        for _ in 0..LAYERS {
            loaded.inplace_op1(&Upload(&file))?;
            weights.push(loaded.to_dtype(DType::F16)?);
        }
        row_sum(&weights[LAYERS - 1], 1)
    };
    let (read, peak) = measure("all loaded, then converted", all_at_once);
    assert_eq!(read, file[..SHAPE.1].iter().sum::<f32>());
    let weight = (SHAPE.0 * SHAPE.1) as u64;
    let stays = LAYERS as u64 * F16 * weight;
    peak.assert_holds(3 * stays);
    peak.assert_largest("loaded", 2 * stays);
    assert_eq!(peak.line("converted"), (LAYERS as u64, stays));
    assert_eq!(peak.reusable, []);

    let (same, singly) = measure("converted one by one", one_by_one);
    assert_eq!(same, read);
    singly.assert_holds(stays + F32 * weight);
    singly.assert_largest("converted singly", stays);
    assert_eq!(singly.line("loaded singly"), (1, F32 * weight));
    // The peaks differ only in the bytes of the line that loads the weights.
    assert_eq!(peak.own() - singly.own(), 2 * stays - F32 * weight);
    singly.assert_reusable("loaded singly", F32 * weight, LAYERS);

    let (same, mended) = measure("converted from one buffer", one_buffer);
    assert_eq!(same, read);
    assert_reused(&singly, &mended);
}

/// The program pads sequences of different lengths in a new tensor for each batch. Its twin uses
/// one tensor, which it fills with zeros before each batch.
#[test]
fn batches_that_are_padded() {
    const ROWS: usize = 48;
    const LENGTH: usize = 2048;
    const WIDTH: usize = 256;
    const BATCHES: usize = 5;
    let Some(device) = device() else { return };
    let sequence = |number: usize| -> Result<Tensor> {
        Tensor::ones((1, LENGTH >> number, WIDTH), DType::F32, device)
    };
    let fill = |padded: &Tensor, sequence: &Tensor| -> Result<f32> {
        for row in 0..ROWS {
            padded.narrow(0, row, 1)?.slice_set(sequence, 1, 0)?;
        }
        row_sum(padded, ROWS - 1)
    };
    let padding = || -> Result<Vec<f32>> {
        let mut read = Vec::new();
        for number in 0..BATCHES {
            let padded = Tensor::zeros((ROWS, LENGTH, WIDTH), DType::F32, device)?; // peak: padded
            read.push(fill(&padded, &sequence(number)?)?);
        }
        Ok(read)
    };
    let padding_again = || -> Result<Vec<f32>> {
        let mut read = Vec::new();
        let padded = Tensor::zeros((ROWS, LENGTH, WIDTH), DType::F32, device)?;
        for number in 0..BATCHES {
            padded.zero_set()?;
            read.push(fill(&padded, &sequence(number)?)?);
        }
        Ok(read)
    };
    let (read, peak) = measure("padded batches", padding);
    let sums = (0..BATCHES).map(|number| ((LENGTH >> number) * WIDTH) as f32);
    assert_eq!(read, sums.collect::<Vec<_>>());
    let padded = F32 * (ROWS * LENGTH * WIDTH) as u64;
    peak.assert_holds(padded + F32 * (LENGTH * WIDTH) as u64);
    peak.assert_largest("padded", padded);
    peak.assert_reusable("padded", padded, BATCHES);

    let (same, mended) = measure("one padded batch", padding_again);
    assert_eq!(same, read);
    assert_reused(&peak, &mended);
}

/// Copies from the host into an existing tensor.
struct Upload<'a>(&'a [f32]);

impl InplaceOp1 for Upload<'_> {
    fn name(&self) -> &'static str {
        "upload"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        candle_core::bail!("only for a GPU")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        assert_eq!(layout.contiguous_offsets(), Some((0, self.0.len())));
        let device = storage.device().clone();
        device.memcpy_htod(self.0, storage.as_cuda_slice_mut()?)
    }
}

/// Returns the sum of a row, without an allocation on the device.
fn row_sum(tensor: &Tensor, row: usize) -> Result<f32> {
    let row = tensor.get(row)?.to_device(&Device::Cpu)?;
    row.to_dtype(DType::F32)?.sum_all()?.to_scalar()
}

/// Returns the first GPU. It is kept for the whole process, so that the memory that cuBLAS
/// allocates once is allocated before every check. Without a GPU, prints that the test is skipped,
/// or panics if checks without a result must fail.
fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Result<Device>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| Device::new_cuda(0)).as_ref();
    let is_required = std::env::var("GPU_LEAK_CHECK").is_ok_and(|mode| mode == "require");
    if let (Err(why), false) = (device, is_required) {
        let line = format!("skipped: no CUDA device: {why}\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("somebody reads it");
        return None;
    }
    Some(device.expect("a CUDA device"))
}

/// The peak of the driver's layer on the GPU, the bytes in use before the run, and the total number
/// of allocations in the run.
struct Measured {
    peak: Peak,
    before: u64,
    allocations: u64,
}

impl std::ops::Deref for Measured {
    type Target = Peak;

    fn deref(&self) -> &Peak {
        &self.peak
    }
}

/// Runs the program in a check, after a warm-up run that loads its kernels. Fails unless the lines
/// of each peak add up to that peak.
#[track_caller]
fn measure<T>(name: &str, program: impl Fn() -> Result<T>) -> (T, Measured) {
    // A checked block does not wait for other blocks, so the report would also list the memory that
    // other blocks hold at its peak.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let check = Check::new(name).peaks(true).warmup(1);
    let (value, report) = check.run_reporting(program);
    for peak in &report.peaks {
        print(name, peak);
        let lines: u64 = peak.lines.iter().map(|line| line.bytes).sum();
        assert_eq!(lines, peak.bytes, "{name}: {peak:?}");
    }
    let peak = report.peak(Place::cuda(0), "driver");
    let peak = peak.expect("memory of the GPU").clone();
    let curve = curve(&report, &peak);
    assert_eq!(curve.lost, 0, "the log has every allocation");
    let allocations = curve.allocations.iter().filter(|it| it.2 > 0).count();
    println!("{name}: {allocations} allocations in all");
    let measured = Measured {
        before: curve.start,
        allocations: allocations as u64,
        peak,
    };
    (value.expect(name), measured)
}

/// Returns the curve of the bytes allocated in the peak's layer on its device, during the run in
/// which the peak occurred.
fn curve<'a>(report: &'a Report, peak: &Peak) -> &'a Course {
    let timeline = report.timeline.as_ref().expect("a timeline");
    let mut curves = timeline.runs[peak.run as usize - 1].curves.iter();
    let is_it = |it: &&Course| (it.place, &it.layer) == (peak.place, &peak.layer);
    let curve = curves.find(|it| it.figure == Figure::Allocated && is_it(it));
    curve.expect("a curve")
}

fn print(name: &str, peak: &Peak) {
    println!("{name}: {}", peak.sentence());
    for line in &peak.lines {
        let (bytes, count, at) = (line.bytes, line.count, &line.at);
        let when = line.allocated().unwrap_or_default();
        println!("{name}:   {bytes} bytes, {count} allocations, {at}, {when}");
    }
    for it in &peak.reusable {
        println!("{name}:   reuse: {}", it.sentence());
    }
}

impl Measured {
    /// Returns the bytes that the program itself held at the peak.
    fn own(&self) -> u64 {
        self.bytes - self.before
    }

    #[track_caller]
    fn assert_holds(&self, bytes: u64) {
        assert!(self.own() >= bytes, "{bytes} bytes: {:?}", self.peak);
    }

    /// Fails unless the largest line has this mark and at least these bytes.
    #[track_caller]
    fn assert_largest(&self, mark: &str, bytes: u64) {
        let largest = &self.lines[0];
        assert_eq!(largest.at, line_of(mark), "{:?}", self.peak);
        assert!(largest.bytes >= bytes, "{bytes} bytes: {:?}", self.peak);
    }

    /// Returns the number of allocations and the bytes of the line with this mark.
    #[track_caller]
    fn line(&self, mark: &str) -> (u64, u64) {
        let at = line_of(mark);
        let of_line = |line: &&Share| line.at == at;
        let line = self.lines.iter().find(of_line).expect("a line of the peak");
        (line.count, line.bytes)
    }

    /// Fails unless these are the only allocations that could share a buffer according to the
    /// report.
    #[track_caller]
    fn assert_reusable(&self, mark: &str, each: u64, count: usize) {
        let expected = Reusable {
            at: line_of(mark),
            each,
            count: count as u64,
            buffers: 1,
        };
        assert_eq!(self.reusable, [expected]);
    }
}

/// Fails unless the report predicted exactly how many allocations the twin saves. Allocations that
/// can share a buffer are not live at the same time, so both programs have the same peak.
#[track_caller]
fn assert_reused(program: &Measured, twin: &Measured) {
    let saved: u64 = program.reusable.iter().map(Reusable::saved).sum();
    assert_eq!(twin.allocations + saved, program.allocations);
    assert_eq!(twin.own(), program.own());
    assert_eq!(twin.reusable, []);
}

/// Returns the line of this file that ends in `// peak: mark`, as a report names it. Only cargo
/// tells a program where its workspace is, so without cargo, paths are absolute.
#[track_caller]
fn line_of(mark: &str) -> String {
    let ending = format!("// peak: {mark}");
    let mut lines = include_str!("peaks.rs").lines();
    let line = lines.position(|line| line.ends_with(&ending));
    let before = line.expect("the mark is in this file");
    let directory = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(_) => "",
        None => concat!(env!("CARGO_MANIFEST_DIR"), "/"),
    };
    format!("{directory}tests/peaks.rs:{}", before + 1)
}
