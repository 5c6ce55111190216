//! The bytes of the seed programs, as reported by PyTorch 2.11 on an H200.
//!
//! Each program is replayed as the buffers that its tensors need, in the order in which PyTorch
//! allocates and frees them. This tests only the allocator, which must report the same figures for
//! the same requests.

use std::collections::HashMap;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::Device;
use gpu_leak_kernels::memory::{Buffer, Policy, empty_cache, stats};

const F32: usize = 4;
const I64: usize = 8;

/// A program's tensors by name.
struct Program {
    device: Device,
    tensors: HashMap<&'static str, Buffer>,
}

impl Program {
    fn new() -> Self {
        Self {
            device: super::embedded(Policy::Caching),
            tensors: HashMap::new(),
        }
    }

    fn take(&mut self, name: &'static str, bytes: usize) {
        let buffer = Buffer::new(&self.device, bytes).expect("there is room");
        assert!(self.tensors.insert(name, buffer).is_none(), "{name} twice");
    }

    fn drop(&mut self, names: &[&str]) {
        for name in names {
            assert!(self.tensors.remove(*name).is_some(), "no {name}");
        }
    }

    fn empty_cache(&self) {
        empty_cache(&self.device).expect("everything free goes back");
    }

    /// Compares the figures with a row of the reference: the allocated, reserved and peak bytes,
    /// and the numbers of segments and blocks.
    #[track_caller]
    fn expect(&self, step: &str, row: [u64; 5]) {
        let stats = stats(&self.device);
        let figures = [
            stats.allocated_bytes.all.current,
            stats.reserved_bytes.all.current,
            stats.allocated_bytes.all.peak,
            stats.segment.all.current,
            stats.active.all.current,
        ];
        assert_eq!(figures, row, "{step}");
    }

    /// `TinyModel()`: linear 100 → 200, linear 200 → 10.
    fn tiny_model(&mut self) {
        self.take("weight1", 200 * 100 * F32);
        self.take("bias1", 200 * F32);
        self.take("weight2", 10 * 200 * F32);
        self.take("bias2", 10 * F32);
    }

    /// The output of [`Self::tiny_model`] for 64 samples. `ReLU` saves its result for a backward
    /// pass.
    fn tiny_model_forward(&mut self, for_backward: bool) {
        self.take("hidden", 64 * 200 * F32);
        self.take("activated", 64 * 200 * F32);
        self.drop(&["hidden"]);
        self.take("logits", 64 * 10 * F32);
        if !for_backward {
            self.drop(&["activated"]);
        }
        self.take("output", 64 * 10 * F32);
        self.drop(&["logits"]);
    }
}

const MODEL: [&str; 4] = ["weight1", "bias1", "weight2", "bias2"];
const GRADIENTS: [(&str, usize); 4] = [
    ("weight1.grad", 200 * 100 * F32),
    ("bias1.grad", 200 * F32),
    ("weight2.grad", 10 * 200 * F32),
    ("bias2.grad", 10 * F32),
];
const FIRST_MOMENTS: [&str; 4] = ["m.weight1", "m.bias1", "m.weight2", "m.bias2"];
const SECOND_MOMENTS: [&str; 4] = ["v.weight1", "v.bias1", "v.weight2", "v.bias2"];

#[gpu_leak_check]
#[test]
fn tiny_model_inference_has_pytorchs_figures() {
    let mut program = Program::new();
    program.expect("start", [0, 0, 0, 0, 0]);
    program.tiny_model();
    program.expect("model", [90_112, 2_097_152, 90_112, 1, 4]);
    program.take("batch", 64 * 100 * F32);
    program.expect("batch", [115_712, 2_097_152, 115_712, 1, 5]);
    program.tiny_model_forward(false);
    program.expect("output", [118_272, 2_097_152, 218_112, 1, 6]);
    program.drop(&MODEL);
    program.drop(&["batch", "output"]);
    program.expect("dropped", [0, 2_097_152, 218_112, 1, 0]);
    program.empty_cache();
    program.expect("empty_cache", [0, 0, 218_112, 0, 0]);
}

#[gpu_leak_check]
#[test]
fn tiny_model_training_with_adam_has_pytorchs_figures() {
    // The peak of a step depends on the temporaries of the operations, not on the allocator. The
    // peaks below are therefore those of this replay.
    let mut program = Program::new();
    program.tiny_model();
    program.take("x", 64 * 100 * F32);
    program.take("t", 64 * 10 * F32);
    program.expect("setup", [118_272, 2_097_152, 118_272, 1, 6]);
    for round in 0..3 {
        let first = round == 0;
        if !first {
            program.drop(&GRADIENTS.map(|(name, _)| name));
        }
        program.tiny_model_forward(true);
        let allocated = |bytes| if first { bytes } else { bytes + 180_224 };
        let blocks = |count| if first { count } else { count + 8 };
        let peak = if first { 220_672 } else { 400_896 };
        let row = [allocated(172_032), 2_097_152, peak, 1, blocks(8)];
        program.expect("forward", row);
        // The mean, a scalar, is in a storage as large as the input.
        program.take("loss", 64 * 10 * F32);
        let row = [allocated(174_592), 2_097_152, peak, 1, blocks(9)];
        program.expect("loss", row);
        program.drop(&["activated"]);
        for (name, bytes) in GRADIENTS {
            program.take(name, bytes);
        }
        let row = [allocated(213_504), 2_097_152, peak, 1, blocks(12)];
        program.expect("backward", row);
        if first {
            for (index, (_, bytes)) in GRADIENTS.into_iter().enumerate() {
                program.take(FIRST_MOMENTS[index], bytes);
                program.take(SECOND_MOMENTS[index], bytes);
            }
        }
        let row = [393_728, 2_097_152, 393_728.max(peak), 1, 20];
        program.expect("step", row);
        program.drop(&["output", "loss"]);
        program.expect("end", [388_608, 2_097_152, 393_728.max(peak), 1, 18]);
    }
    program.drop(&MODEL);
    program.drop(&GRADIENTS.map(|(name, _)| name));
    program.drop(&FIRST_MOMENTS);
    program.drop(&SECOND_MOMENTS);
    program.expect("del_model_opt", [28_160, 2_097_152, 400_896, 1, 2]);
    program.drop(&["x", "t"]);
    program.empty_cache();
    program.expect("empty_cache", [0, 0, 400_896, 0, 0]);
}

#[gpu_leak_check]
#[test]
fn sin_of_four_gibibytes_has_pytorchs_figures() {
    let mut program = Program::new();
    program.take("x", 1024 * 1024 * 1024 * F32);
    program.expect("x", [4_294_967_296, 4_294_967_296, 4_294_967_296, 1, 1]);
    program.take("y", 1024 * 1024 * 1024 * F32);
    program.expect("y", [8_589_934_592, 8_589_934_592, 8_589_934_592, 2, 2]);
    program.drop(&["x", "y"]);
    program.expect("del", [0, 8_589_934_592, 8_589_934_592, 2, 0]);
    program.empty_cache();
    program.expect("empty_cache", [0, 0, 8_589_934_592, 0, 0]);
}

#[gpu_leak_check]
#[test]
fn data_loader_loop_has_pytorchs_figures() {
    let mut program = Program::new();
    for (index, samples) in (0..10_000)
        .step_by(32)
        .map(|from| 32.min(10_000 - from))
        .enumerate()
    {
        program.take("data", samples * 100 * F32);
        program.take("labels", samples * I64);
        match index {
            0 => program.expect("batch0", [13_312, 2_097_152, 13_312, 1, 2]),
            312 => program.expect("batch312", [7_168, 2_097_152, 13_312, 1, 2]),
            _ => {}
        }
        program.drop(&["data", "labels"]);
        program.empty_cache();
    }
    program.expect("end", [0, 0, 13_312, 0, 0]);
}

#[gpu_leak_check]
#[test]
fn linear_adam_release_has_pytorchs_figures() {
    let mut program = Program::new();
    program.take("weight", 1000 * 1000 * F32);
    program.take("bias", 1000 * F32);
    program.take("tensor", 1000 * 1000 * F32);
    program.expect("before", [8_004_608, 23_068_672, 8_004_608, 2, 3]);
    program.drop(&["weight", "bias", "tensor"]);
    program.expect("del", [0, 23_068_672, 8_004_608, 2, 0]);
    program.empty_cache();
    program.expect("empty_cache", [0, 0, 8_004_608, 0, 0]);
}

#[gpu_leak_check]
#[test]
fn process_data_has_pytorchs_figures() {
    let mut program = Program::new();
    for name in ["a", "b", "c"] {
        program.take(name, 1000 * 1000 * F32);
    }
    program.expect("c", [12_000_768, 20_971_520, 12_000_768, 1, 3]);
    program.drop(&["a", "b"]);
    program.expect("del_ab", [4_000_256, 20_971_520, 12_000_768, 1, 1]);
    program.empty_cache();
    program.expect("empty_cache", [4_000_256, 20_971_520, 12_000_768, 1, 1]);
    program.drop(&["c"]);
    program.empty_cache();
    program.expect("end", [0, 0, 12_000_768, 0, 0]);
}

/// The size of a segment is a multiple of 2 MiB. The surplus of 556,032 bytes is not split off, so
/// it counts as allocated.
#[gpu_leak_check]
#[test]
fn a_large_tensor_counts_the_whole_of_its_segment() {
    let mut program = Program::new();
    program.take("a", 10_000 * 10_000 * F32);
    program.expect("before", [400_556_032, 400_556_032, 400_556_032, 1, 1]);
    program.drop(&["a"]);
    program.empty_cache();
    program.expect("after", [0, 0, 400_556_032, 0, 0]);
}
