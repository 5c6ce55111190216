//! A program, and the figures that are read at its steps.

use crate::device::Device;
use crate::error::Result;
use crate::memory;

/// The figures of the device's allocator at one step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The program's name.
    pub program: &'static str,
    /// The step's name.
    pub step: String,
    /// The bytes handed out.
    pub allocated: u64,
    /// The bytes held from the driver.
    pub reserved: u64,
    /// The peak of bytes handed out since the program began.
    pub peak_allocated: u64,
    /// The number of segments held from the driver.
    pub segments: u64,
    /// The number of blocks handed out.
    pub active_blocks: u64,
}

/// One program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The maximum device memory that the program needs, in bytes.
    pub bytes: u64,
    run: fn(&mut Steps<'_>) -> Result<()>,
}

impl Program {
    pub(super) const fn new(
        name: &'static str,
        bytes: u64,
        run: fn(&mut Steps<'_>) -> Result<()>,
    ) -> Self {
        Self { name, bytes, run }
    }

    /// Runs the program with an empty cache and reads the allocator's figures at each step.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory or fails.
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

/// Reads the allocator's figures at the steps of a program.
pub(super) struct Steps<'a> {
    program: &'static str,
    device: &'a Device,
    rows: Vec<Row>,
}

impl<'a> Steps<'a> {
    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    pub(super) fn read(&mut self, step: impl Into<String>) {
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
