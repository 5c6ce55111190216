//! A program uses a model and drops everything, but a few megabytes are still in use. This example
//! shows what holds them.
//!
//! ```text
//! cargo run --example where_the_bytes_go -- [--device embedded|cuda:0]
//! ```
#![expect(clippy::print_stdout, reason = "the output is the program's purpose")]

use std::error::Error;

use gpu_leak_examples::{device_named, option};
use gpu_leak_kernels::BlasWorkspace;
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, HostTensor, Result, Tensor, TinyModel, inference_mode, memory};

/// The size of the workspace that PyTorch lends to cuBLAS on a large GPU.
const WORKSPACE: usize = 32 << 20;

/// The size of a matrix that is large enough for a CUDA device to use cuBLAS for the product.
const SIDE: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let device = device_named(&option("--device")?.unwrap_or_else(|| "embedded".to_owned()))?;
    let table = StepTable::begin(&device)?;
    inference(&device, &table)?;
    if device.as_cuda().is_some() {
        library(&device, &table)?;
    }
    println!(
        "\nWhat is left is the context: code, stacks and tables that the driver keeps until the \
         process ends.\nIt contains no tensor, and no call frees it."
    );
    Ok(())
}

fn inference(device: &Device, table: &StepTable<'_>) -> Result<()> {
    table.show(
        "the context alone",
        "the driver holds it from the first call on",
    )?;
    let model = TinyModel::new(device)?;
    table.show("a model", "four parameters: 90112 B of a segment of 2 MiB")?;
    let batch = HostTensor::rand([64, TinyModel::INPUTS])?.to(device)?;
    table.show("a batch", "from the same segment: nothing more is reserved")?;
    let output = inference_mode(|| model.forward(&batch))?;
    table.show(
        "its output",
        "without a graph, the intermediate results are free again",
    )?;
    drop((model, batch, output));
    table.show(
        "all dropped",
        "allocated is 0; the segment is cached, not lost",
    )?;
    memory::empty_cache(device)?;
    table.show(
        "cache emptied",
        "reserved is 0: the allocator holds nothing",
    )
}

fn library(device: &Device, table: &StepTable<'_>) -> Result<()> {
    let product = || {
        let side = Tensor::randn([SIDE, SIDE], device)?;
        side.matmul(&side)
    };
    drop(product()?);
    memory::empty_cache(device)?;
    table.show(
        "a large product",
        "cuBLAS and cuRAND allocate from the driver, bypassing the allocator",
    )?;
    let workspace = BlasWorkspace::new(device, WORKSPACE)?;
    drop(product()?);
    memory::empty_cache(device)?;
    table.show(
        "a workspace lent",
        "32 MiB that stay allocated with no tensor alive: PyTorch's default",
    )?;
    drop(workspace);
    memory::empty_cache(device)?;
    table.show("and taken back", "these are the few megabytes")
}

/// Prints the figures of each layer after each step.
struct StepTable<'a> {
    device: &'a Device,
    /// The bytes in use on the whole device at the beginning.
    before: usize,
}

impl<'a> StepTable<'a> {
    fn begin(device: &'a Device) -> Result<Self> {
        println!(
            "{:<18} {:>12} {:>12} {:>14}",
            device.to_string(),
            "allocated",
            "reserved",
            "device used"
        );
        Ok(Self {
            device,
            before: used(device)?,
        })
    }

    fn show(&self, step: &str, meaning: &str) -> Result<()> {
        self.device.synchronize()?;
        println!(
            "{step:<18} {:>12} {:>12} {:>+14}  {meaning}",
            memory::allocated(self.device),
            memory::reserved(self.device),
            used(self.device)?.cast_signed() - self.before.cast_signed(),
        );
        Ok(())
    }
}

fn used(device: &Device) -> Result<usize> {
    let memory = memory::device_memory(device)?;
    Ok(memory.total - memory.free)
}
