//! Launches of `optimizer.cu`.
#![expect(unsafe_code, reason = "declares that a struct is laid out as in C")]

use cudarc::driver::DeviceRepr;

use crate::compute::kernels::{AdamParameter, AdamStep, OptimizerKernels, SgdParameter, SgdStep};
use crate::cuda::{Cuda, Kernel};
use crate::error::Result;

use super::address::{count, floats};
use super::launch::Grid;

/// The maximum number of parameters of a launch. Must equal `MAX_PARAMETERS` in `optimizer.cu`.
const TABLE: usize = 48;

/// The number of elements that one block handles. Must equal `CHUNK` in `optimizer.cu`.
const CHUNK: u64 = 1024;

const THREADS: u32 = 256;

/// Mirrors the struct `SgdTable` in `optimizer.cu`; the layouts must match.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct SgdTable {
    values: [u64; TABLE],
    gradients: [u64; TABLE],
    momenta: [u64; TABLE],
    counts: [u64; TABLE],
    chunks_before: [u32; TABLE],
    first: [u32; TABLE],
    parameters: u32,
}

/// Mirrors the struct `AdamTable` in `optimizer.cu`; the layouts must match.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct AdamTable {
    values: [u64; TABLE],
    gradients: [u64; TABLE],
    means: [u64; TABLE],
    squares: [u64; TABLE],
    counts: [u64; TABLE],
    step_sizes: [f32; TABLE],
    square_corrections: [f32; TABLE],
    chunks_before: [u32; TABLE],
    first: [u32; TABLE],
    parameters: u32,
}

// SAFETY: the struct is `repr(C)`, has only integers, and matches the struct in `optimizer.cu`.
unsafe impl DeviceRepr for SgdTable {}

// SAFETY: the struct is `repr(C)`, has only integers and floats, and matches the struct in
// `optimizer.cu`.
unsafe impl DeviceRepr for AdamTable {}

impl OptimizerKernels for Cuda {
    fn sgd(&self, step: SgdStep, parameters: &[SgdParameter<'_>]) -> Result<()> {
        for parameters in parameters.chunks(TABLE) {
            let mut table = SgdTable {
                values: [0; TABLE],
                gradients: [0; TABLE],
                momenta: [0; TABLE],
                counts: [0; TABLE],
                chunks_before: [0; TABLE],
                first: [0; TABLE],
                parameters: table_size(parameters.len()),
            };
            let mut chunks = 0;
            for (place, parameter) in parameters.iter().enumerate() {
                table.values[place] = floats(parameter.value);
                table.gradients[place] = floats(parameter.gradient);
                table.momenta[place] = parameter.momentum.map_or(0, floats);
                table.counts[place] = count(parameter.value);
                table.chunks_before[place] = chunks;
                table.first[place] = parameter.first.into();
                chunks += chunks_of(table.counts[place]);
            }
            self.launch(
                Kernel::Sgd,
                grid(chunks),
                [
                    (&table).into(),
                    (&step.learning_rate).into(),
                    (&step.momentum).into(),
                    (&step.weight_decay).into(),
                ],
            )?;
        }
        Ok(())
    }

    fn adam(&self, step: AdamStep, parameters: &[AdamParameter<'_>]) -> Result<()> {
        for parameters in parameters.chunks(TABLE) {
            let mut table = AdamTable {
                values: [0; TABLE],
                gradients: [0; TABLE],
                means: [0; TABLE],
                squares: [0; TABLE],
                counts: [0; TABLE],
                step_sizes: [0.0; TABLE],
                square_corrections: [0.0; TABLE],
                chunks_before: [0; TABLE],
                first: [0; TABLE],
                parameters: table_size(parameters.len()),
            };
            let mut chunks = 0;
            for (place, parameter) in parameters.iter().enumerate() {
                table.values[place] = floats(parameter.value);
                table.gradients[place] = floats(parameter.gradient);
                table.means[place] = floats(parameter.mean);
                table.squares[place] = floats(parameter.square);
                table.counts[place] = count(parameter.value);
                table.step_sizes[place] = parameter.step_size;
                table.square_corrections[place] = parameter.square_correction;
                table.chunks_before[place] = chunks;
                table.first[place] = parameter.first.into();
                chunks += chunks_of(table.counts[place]);
            }
            self.launch(
                Kernel::Adam,
                grid(chunks),
                [
                    (&table).into(),
                    (&step.beta1).into(),
                    (&step.beta2).into(),
                    (&step.epsilon).into(),
                    (&step.weight_decay).into(),
                ],
            )?;
        }
        Ok(())
    }
}

fn table_size(parameters: usize) -> u32 {
    u32::try_from(parameters).expect("a table is small")
}

/// The result fits, because no GPU has memory for 2^32 chunks of 4 KiB.
fn chunks_of(count: u64) -> u32 {
    u32::try_from(count.div_ceil(CHUNK)).expect("fewer chunks than 2^32")
}

/// There is exactly one block per chunk, because a block finds its parameter by its own index.
fn grid(chunks: u32) -> Grid {
    Grid {
        blocks: chunks,
        threads: (THREADS, 1),
    }
}
