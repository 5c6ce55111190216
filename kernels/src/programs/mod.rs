//! The programs of PyTorch users who asked where their memory went, step by step.
//!
//! Each does what the Python program of its name does, so that its allocated and reserved bytes at
//! each step can be held against PyTorch's.

mod data;
mod layers;
mod tensors;
mod tiny_model;

use crate::device::Device;
use crate::error::Result;
use crate::memory;

/// What the device's allocator said at one step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The program's name.
    pub program: &'static str,
    /// The step's name.
    pub step: String,
    /// Bytes handed out.
    pub allocated: u64,
    /// Bytes held from the driver.
    pub reserved: u64,
    /// The most bytes handed out since the program began.
    pub peak_allocated: u64,
    /// Segments held from the driver.
    pub segments: u64,
    /// Blocks handed out.
    pub active_blocks: u64,
}

/// One program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// How much device memory it needs at most, in bytes.
    pub bytes: u64,
    run: fn(&mut Steps<'_>) -> Result<()>,
}

/// Every program, in the order in which PyTorch was measured.
pub const PROGRAMS: &[Program] = &[
    Program::new("tiny_model_inference", 2 << 20, tiny_model::inference),
    Program::new(
        "tiny_model_training_adam",
        2 << 20,
        tiny_model::training_adam,
    ),
    Program::new("tiny_model_training_sgd", 2 << 20, tiny_model::training_sgd),
    Program::new("sin_1024_cubed", 8 << 30, tensors::sin_1024_cubed),
    Program::new("linear_no_grad", 2 << 20, layers::linear_no_grad),
    Program::new("data_loader_loop", 2 << 20, data::data_loader_loop),
    Program::new("linear_adam_release", 22 << 20, layers::linear_adam_release),
    Program::new("large_randn", 382 << 20, tensors::large_randn),
    Program::new("process_data", 20 << 20, tensors::process_data),
    Program::new("training_loop_sgd", 2 << 20, layers::training_loop_sgd),
    Program::new("multiple_ops", 2 << 20, tensors::multiple_ops),
];

impl Program {
    const fn new(name: &'static str, bytes: u64, run: fn(&mut Steps<'_>) -> Result<()>) -> Self {
        Self { name, bytes, run }
    }

    /// The program of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Runs it from an empty cache and reads the allocator at each step.
    ///
    /// # Errors
    ///
    /// When the device has no room or fails.
    pub fn run(&self, device: &Device) -> Result<Vec<Row>> {
        memory::empty_cache(device)?;
        memory::reset_peak(device);
        let mut steps = Steps {
            program: self.name,
            device,
            rows: Vec::new(),
        };
        (self.run)(&mut steps)?;
        Ok(steps.rows)
    }
}

/// Takes a program's readings.
struct Steps<'a> {
    program: &'static str,
    device: &'a Device,
    rows: Vec<Row>,
}

impl<'a> Steps<'a> {
    fn device(&self) -> &'a Device {
        self.device
    }

    fn read(&mut self, step: impl Into<String>) {
        let stats = memory::stats(self.device);
        self.rows.push(Row {
            program: self.program,
            step: step.into(),
            allocated: stats.allocated_bytes.all.current,
            reserved: stats.reserved_bytes.all.current,
            peak_allocated: stats.allocated_bytes.all.peak,
            segments: stats.segment.all.current,
            active_blocks: stats.active.all.current,
        });
    }
}
